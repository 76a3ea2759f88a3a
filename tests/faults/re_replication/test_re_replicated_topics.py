"""re_replicate_topics on a real lab: the target equals the source record for record, and nothing else has changed."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer

from lab.environment.bring_up import up
from lab.environment.connect import call_worker, connector_name
from lab.environment.state import Lab
from lab.environment.take_down import down
from tests.faults.re_replication.re_replicated_site import RESET, SOURCE, TARGET, Place, Site
from tests.faults.support.scene import until
from tests.faults.support.stepping import Run, Stepping, stepping
from tests.support.lab_clients import client

PARAMS = {"source": SOURCE, "target": TARGET, "reason": "records are missing on the standby"}
POLICIES = ("default", "identity")
DELETED = pytest.mark.parametrize("deletes", [True, False], ids=["deleted", "kept"])
READERS = "readers"


class Copied:
    """One lab of one naming policy, and runs of the procedure on it."""

    def __init__(self, lab: Lab, driver: Stepping, site: Site | None = None) -> None:
        self.site, self.driver = site or Site(lab), driver
        #: A topic that is never copied again, to which others write meanwhile.
        self.other = new_name()
        self.site.create(self.other, 3)
        self.site.numbered(self.other, 3, 0, 90)
        self.site.await_copied(self.other)

    def run(self, topics: str, **params: Any) -> dict[str, Any]:
        """Run the procedure to its end; return the evidence."""
        run = Run({**PARAMS, "topics": topics, **params}, dag_id="re_replicate_topics")
        try:
            evidence = self.driver.whole(run)
        finally:
            print(run.ended, {step: text for step, text in run.texts.items() if text}, flush=True)
        print(evidence["outcome"], evidence["reason_for_outcome"], evidence["seconds"], flush=True)
        return evidence

    def completed(self, topics: str, **params: Any) -> dict[str, Any]:
        """Run the procedure, and assert that it completed; return figures by step."""
        evidence = self.run(topics, **params)
        assert evidence["outcome"] == "completed", f"{evidence['failing_step']}: {evidence['reason_for_outcome']}"
        return {step["id"]: step["figures"] for step in evidence["steps"]}

    def copied_again(self, topic: str, deletes: bool, **params: Any) -> dict[str, Any]:
        """Copy a topic again, and assert what must hold then; return figures by step.

        The new copies equal the source record for record; the settings and other topics' offsets are as before, and
        groups go on at the same records.
        """
        site, remote = self.site, self.site.remote(topic)
        before, settings = self._other_offsets(), site.settings(TARGET, remote)
        older = site.contents(TARGET, remote)
        begins = {p: 0 if deletes else end for p, end in site.ends(TARGET, remote).items()}
        groups = {place: offset for place, offset in site.positions(SOURCE, READERS).items() if place[0] == topic}
        figures = self.completed(topic, delete_target_topics=deletes, **params)
        source, copies = site.records(SOURCE, topic), site.records(TARGET, remote, begins)
        assert {p: [c for _, c in rows] for p, rows in copies.items()} == {
            p: [c for _, c in rows] for p, rows in source.items()
        }
        if not deletes:
            whole = site.contents(TARGET, remote)
            assert {p: rows[: len(older[p])] for p, rows in whole.items()} == older
        assert site.settings(TARGET, remote) == settings
        held = site.positions(TARGET, READERS)
        for (_, p), position in groups.items():
            unread = [content for offset, content in source[p] if offset >= position]
            assert [content for offset, content in copies[p] if offset >= held[remote, p]] == unread, (p, position)
        after = self._other_offsets()
        assert {place: offset for place, offset in after.items() if place[0] == self.other} == {
            place: offset for place, offset in before.items() if place[0] == self.other
        }
        return figures

    def _other_offsets(self) -> dict[Place, int]:
        return self.site.settled_offsets(self.other)

    def made(self, topic: str, partitions: int = 3, count: int = 300, **settings: str) -> str:
        """Create, fill and mirror a topic with a group on both clusters; return its name."""
        site, remote = self.site, self.site.remote(topic)
        site.create(topic, partitions, **settings)
        site.numbered(topic, partitions, 0, count)
        site.await_copied(topic)
        for p in range(partitions):
            site.commit(SOURCE, READERS, {(topic, p): count // partitions - 7 * (p + 1)})
            site.commit(TARGET, READERS, {(remote, p): p})
        site.settled_offsets(topic)
        return topic


@contextmanager
def copied_lab(policy: str, folders: pytest.TempPathFactory) -> Iterator[Copied]:
    """Start a lab without Airflow with a naming policy, and take it down behind the block."""
    state = folders.mktemp("lab")
    up(state, airflow=False, policy=policy)
    try:
        with stepping(Lab(state), folders.mktemp("steps")) as driver:
            yield Copied(Lab(state), driver)
    finally:
        down(state)


@pytest.fixture(scope="module", params=POLICIES)
def copied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copied]:
    """A lab without Airflow."""
    with copied_lab(request.param, tmp_path_factory) as made:
        yield made


def new_name() -> str:
    """Return a topic name that no other test uses."""
    return f"ho.again-{uuid.uuid4().hex[:6]}"


@contextmanager
def load_on(site: Site, topic: str) -> Iterator[list[int]]:
    """Write to a topic until the block ends; yield the list of numbers written, of which the first is there already."""
    written, stop = [90], threading.Event()

    def write() -> None:
        while not stop.is_set():
            site.numbered(topic, 3, written[-1], 30)
            written.append(written[-1] + 30)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield written
    finally:
        stop.set()
        thread.join()


@DELETED
def test_a_plain_topic(copied: Copied, deletes: bool) -> None:
    """Records, settings and positions are there."""
    topic = copied.made(new_name(), **{"retention.ms": "600000000"})
    figures = copied.copied_again(topic, deletes)
    assert figures["verify_copies"]["records"] == 300
    assert (figures["recreate_target_topics"]["recreated"], figures["verify_copies"]["repeats"]) == (int(deletes), 0)


@DELETED
def test_a_topic_with_headers_keys_and_nulls(copied: Copied, deletes: bool) -> None:
    """Every part of a record is compared."""
    site, topic = copied.site, copied.made(new_name(), 1, 30)
    parts = [None, b"", b"\x00\xff", b"text"]
    headers = [None, [("h", b"\x00\xff"), ("h", None), ("", b"")]]
    site.write(topic, [(0, key, value, held) for key in parts for value in parts for held in headers])
    site.await_copied(topic)
    assert copied.copied_again(topic, deletes)["verify_copies"]["records"] == 30 + 32


@DELETED
def test_twelve_partitions_of_which_one_is_empty(copied: Copied, deletes: bool) -> None:
    """Each partition is seeded and compared."""
    site, topic = copied.site, new_name()
    site.create(topic, 12)
    site.write(topic, [(n % 11, None, b"v%d" % n, None) for n in range(1100)])
    site.await_copied(topic)
    site.settled_offsets(topic)
    figures = copied.copied_again(topic, deletes)
    assert (figures["verify_copies"]["partitions"], figures["verify_copies"]["records"]) == (12, 1100)


@DELETED
def test_a_transactional_topic(copied: Copied, deletes: bool) -> None:
    """Markers leave offsets without a record, also at the end of the log."""
    site, topic = copied.site, copied.made(new_name(), 2, 40)
    for n in range(5):
        site.numbered(topic, 2, 1000 + 10 * n, 10, **{"transactional.id": f"{topic}-{n}"})
    site.await_copied(topic)
    assert copied.copied_again(topic, deletes)["verify_copies"]["records"] == 90


@DELETED
def test_a_topic_of_which_half_was_replicated(copied: Copied, deletes: bool) -> None:
    """As after a loss: Connect goes on behind records that the target never got."""
    site, topic = copied.site, copied.made(new_name(), 2, 100)
    site.stop()
    site.numbered(topic, 2, 100, 100)
    rows = [
        {"partition": {"cluster": SOURCE, "topic": topic, "partition": p}, "offset": {"offset": 79}} for p in (0, 1)
    ]
    site.connect("PATCH", "/offsets", {"offsets": rows})
    site.resume()
    until(lambda: site.offsets().get((topic, 1)) == 99, "the rest to be copied")
    assert len(site.contents(TARGET, site.remote(topic))[0]) == 70
    assert copied.copied_again(topic, deletes)["verify_copies"]["records"] == 200


@DELETED
def test_a_log_start_above_0(copied: Copied, deletes: bool) -> None:
    """What retention has deleted on the source is exported, and not waited for."""
    site, topic = copied.site, copied.made(new_name(), 2, 200)
    site.delete_records(SOURCE, topic, 40)
    figures = copied.copied_again(topic, deletes)
    assert figures["verify_copies"]["records"] == 120
    assert figures["export_target_topics"]["target_only"] == 80


@DELETED
@pytest.mark.parametrize("start", [0, 40])
def test_a_connector_that_begins_at_the_end(copied: Copied, deletes: bool, start: int) -> None:
    """Record 0 is there; a topic of which nothing was copied goes on at its end; the setting is as before."""
    site, topic = copied.site, copied.made(new_name(), 2, 200)
    site.create(empty := new_name())
    if start:
        site.delete_records(SOURCE, topic, start)
    with site.beginning_at_the_end() as aged:
        figures = copied.copied_again(topic, deletes)
        assert figures["verify_copies"]["records"] == 200 - 2 * start
        assert figures["seed_replication"].get("held") == (None if start else [f"{aged}-0"])
        assert (figures["place_target_groups"].get("reset_as_before") is None) == bool(start)
        assert site.connect("GET", "/config")[RESET] == "latest"
        site.numbered(aged, 1, 20, 3)
        site.numbered(empty, 1, 0, 3)
        until(
            lambda: site.contents(TARGET, site.remote(aged)).get(0) == site.contents(SOURCE, aged)[0][20:],
            lambda: f"{site.contents(TARGET, site.remote(aged))}",
        )
        site.await_copied(empty)


@DELETED
def test_load_on_another_topic(copied: Copied, deletes: bool) -> None:
    """Others write on: none of their records is missing, and none is there twice."""
    site, topic, busy = copied.site, copied.made(new_name()), new_name()
    site.create(busy, 3)
    site.numbered(busy, 3, 0, 90)
    site.await_copied(busy)
    with load_on(site, busy):
        figures = copied.copied_again(topic, deletes)
    site.await_copied(busy)
    assert site.contents(TARGET, site.remote(busy)) == site.contents(SOURCE, busy)
    assert figures["stop_mirror_maker"]["not_proven"] == []


@DELETED
def test_a_group_that_is_active_on_another_topic(copied: Copied, deletes: bool) -> None:
    """It reads on, and keeps its members."""
    site, topic = copied.site, copied.made(new_name())
    settings = {"group.id": f"busy-{uuid.uuid4().hex[:6]}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**client(site.lab, TARGET, "consumer"), **settings})
    consumer.subscribe([site.remote(copied.other)])
    try:
        until(lambda: consumer.poll(0.5) and consumer.assignment(), "the group to read")
        copied.copied_again(topic, deletes)
        assert consumer.poll(0.5) is not None or consumer.assignment()
    finally:
        consumer.close()


def test_a_group_that_reads_the_topic_is_refused(copied: Copied) -> None:
    """Nothing was changed: the flow runs, the topic has its id."""
    site, topic = copied.site, copied.made(new_name(), 1, 30)
    settings = {"group.id": f"busy-{uuid.uuid4().hex[:6]}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**client(site.lab, TARGET, "consumer"), **settings})
    consumer.subscribe([site.remote(topic)])
    try:
        until(lambda: consumer.poll(0.5) and consumer.assignment(), "the group to read")
        evidence = copied.run(topic, delete_target_topics=True)
        assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "plan_re_replication")
        assert "have members" in evidence["reason_for_outcome"]
    finally:
        consumer.close()


def test_the_recipe_with_offset_0_misses_record_0(copied: Copied) -> None:
    """Stop, delete the topic, write {"offset": 0} for every partition, start: each partition lacks its record 0."""
    site, topic = copied.site, copied.made(new_name(), 3, 90)
    remote = site.remote(topic)
    site.stop()
    site.admin(TARGET).delete_topics([remote])[remote].result(30.0)
    rows = [
        {"partition": {"cluster": SOURCE, "topic": topic, "partition": p}, "offset": {"offset": 0}} for p in range(3)
    ]
    site.connect("PATCH", "/offsets", {"offsets": rows})
    site.resume()
    until(
        lambda: {p: len(r) for p, r in site.contents(TARGET, remote).items()} == dict.fromkeys(range(3), 29), "copies"
    )
    source = site.contents(SOURCE, topic)
    assert site.contents(TARGET, remote) == {p: rows[1:] for p, rows in source.items()}
    # With the topic the recipe has deleted the group's positions on it.
    site.commit(TARGET, READERS, {(remote, p): 0 for p in range(3)})
    copied.copied_again(topic, deletes=True)


def test_checkpoints_afterwards_are_those_of_the_new_copies(copied: Copied) -> None:
    """MirrorMaker 2 translates positions to the new copies, though the older syncs are still in its topic."""
    site, topic = copied.site, copied.made(new_name(), 1, 200)
    site.delete_records(SOURCE, topic, 150)
    copied.copied_again(topic, deletes=True)
    site.commit(SOURCE, READERS, {(topic, 0): 200})
    name = connector_name(SOURCE, TARGET, "checkpoint")
    assert call_worker(site.lab, TARGET, "GET", f"/connectors/{name}/status").json()["connector"]["state"] == "RUNNING"
    until(lambda: site.checkpoint(READERS, topic, 0) == (200, 50), lambda: f"{site.checkpoint(READERS, topic, 0)}", 120)
