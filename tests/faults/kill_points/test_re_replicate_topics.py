"""kill -9 after every journal write of re_replicate_topics, resumed each time: one end state, nothing copied twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.re_replication.re_replicated_site import RESET, SOURCE, TARGET
from tests.faults.re_replication.test_re_replicated_topics import PARAMS, READERS, Copied, copied_lab, new_name
from tests.faults.support.scene import until
from tests.faults.support.stepping import Run


@pytest.fixture(scope="module", params=["default", "identity"])
def copied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copied]:
    """A lab without Airflow."""
    with copied_lab(request.param, tmp_path_factory) as made:
        yield made


@pytest.mark.parametrize("deletes", [True, False], ids=["deleted", "kept"])
def test_killed_after_every_journal_write(copied: Copied, deletes: bool) -> None:
    """Each step is killed after its n-th write, for every n, and tried again; the end is the same."""
    site, driver = copied.site, copied.driver
    topic = copied.made(new_name())
    remote = site.remote(topic)
    older, others = site.contents(TARGET, remote), site.settled_offsets(copied.other)
    run = Run({**PARAMS, "topics": topic, "delete_target_topics": deletes}, dag_id="re_replicate_topics")
    points = {}
    for step in (*run.steps, "close_procedure"):
        points[step] = driver.killed_everywhere(run, step)
        assert run.ended[step] == "done", f"{step}: {run.texts[step]}"
    print({step: len(where) for step, where in points.items()}, flush=True)
    assert sum(map(len, points.values())) > 25
    assert driver.evidence(run)["outcome"] == "completed"
    source, whole = site.contents("primary", topic), site.contents(TARGET, remote)
    assert whole == ({p: source[p] for p in source} if deletes else {p: older[p] + source[p] for p in source})
    held = site.positions(TARGET, READERS)
    starts = {p: 0 if deletes else len(older[p]) for p in source}
    assert held == held | {(remote, p): starts[p] + len(source[p]) - 7 * (p + 1) for p in source}
    now = site.offsets()
    assert {place: now[place] for place in others if place[0] == copied.other} == {
        place: offset for place, offset in others.items() if place[0] == copied.other
    }


def test_killed_with_a_connector_that_begins_at_the_end(copied: Copied) -> None:
    """Its setting is as before at the end; what is written meanwhile to a topic never copied is copied, once."""
    site, driver, topic = copied.site, copied.driver, copied.made(new_name())
    with site.beginning_at_the_end() as aged:
        others = site.settled_offsets(copied.other)
        run, points = Run({**PARAMS, "topics": topic, "delete_target_topics": True}, dag_id="re_replicate_topics"), {}
        for n, step in enumerate((*run.steps, "close_procedure")):
            points[step] = driver.killed_everywhere(run, step)
            assert run.ended[step] == "done", f"{step}: {run.texts[step]}"
            site.numbered(aged, 1, 20 + n, 1)
        print({step: len(where) for step, where in points.items()}, flush=True)
        assert driver.evidence(run)["outcome"] == "completed" and len(points["place_target_groups"]) > 5
        assert site.connect("GET", "/config")[RESET] == "latest"
        assert site.contents(TARGET, site.remote(topic)) == site.contents(SOURCE, topic)
        newer = site.contents(SOURCE, aged)[0][20:]
        until(lambda: len(site.contents(TARGET, site.remote(aged)).get(0, [])) >= len(newer), "the newer records")
        assert site.contents(TARGET, site.remote(aged))[0] == newer
        now = site.offsets()
        assert all(now[place] == others[place] for place in others if place[0] == copied.other)


@pytest.mark.parametrize("step", ["stop_mirror_maker", "seed_replication"])
def test_a_rollback_with_a_connector_that_begins_at_the_end(copied: Copied, step: str) -> None:
    """Killed at each write: the setting is as before, and only what was written since the stop is copied."""
    site, driver, topic = copied.site, copied.driver, copied.made(new_name())
    before = site.contents(TARGET, site.remote(topic))
    with site.beginning_at_the_end() as aged:
        run = Run({**PARAMS, "topics": topic}, dag_id="re_replicate_topics")
        assert driver.forward(run, until=step)
        site.numbered(aged, 1, 20, 5)
        points = driver.killed_everywhere(run, "return_to_source")
        assert len(points) > 2 and run.ended["return_to_source"] == "done", run.texts["return_to_source"]
        driver.step(run, "close_procedure")
        assert driver.evidence(run)["outcome"] == "returned"
        assert site.connect("GET", "/config")[RESET] == "latest"
        newer = site.contents(SOURCE, aged)[0][20:]
        until(lambda: site.contents(TARGET, site.remote(aged)).get(0) == newer, "the newer records")
        assert site.contents(TARGET, site.remote(topic)) == before


@pytest.mark.parametrize("step", ["stop_mirror_maker", "seed_replication"])
def test_a_rollback_killed_after_every_journal_write(copied: Copied, step: str) -> None:
    """Rolled back after the stop, and after offsets were set: nothing is copied again, and records flow."""
    site, driver = copied.site, copied.driver
    topic = copied.made(new_name())
    before, offsets = site.contents(TARGET, site.remote(topic)), site.settled_offsets(topic)
    run = Run({**PARAMS, "topics": topic}, dag_id="re_replicate_topics")
    assert driver.forward(run, until=step)
    points = driver.killed_everywhere(run, "return_to_source")
    assert len(points) > 2 and run.ended["return_to_source"] == "done", run.texts["return_to_source"]
    driver.step(run, "close_procedure")
    assert driver.evidence(run)["outcome"] == "returned"
    site.numbered(topic, 3, 300, 3)
    site.await_copied(topic)
    after = site.contents(TARGET, site.remote(topic))
    assert {p: rows[:-1] for p, rows in after.items()} == before
    assert all(site.offsets()[place] >= offset for place, offset in offsets.items())
