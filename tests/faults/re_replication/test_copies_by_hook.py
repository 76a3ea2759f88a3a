"""re_replicate_topics where no REST API sets offsets: a real worker of Kafka 2.8.2, and real dedicated processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.environment.bring_up import up
from lab.environment.state import Lab
from lab.environment.take_down import down
from tests.faults.re_replication.hooked_site import HookedSite, choices_of, hook_of
from tests.faults.re_replication.re_replicated_site import SOURCE, TARGET
from tests.faults.re_replication.test_re_replicated_topics import DELETED, Copied, load_on, new_name
from tests.faults.support.scene import until
from tests.faults.support.stepping import stepping
from tests.faults.support.stop_server import StopServer


class HookedCopies(Copied):
    """One lab of one kind of flow, its stop hook, and runs of the procedure on it."""

    hook: StopServer

    def at_work(self) -> None:
        """A record is copied, after a minute too: nothing stands still, and nothing is repeated."""
        self.site.numbered(self.other, 3, 90, 3)
        self.site.await_copied(self.other)


@pytest.fixture(scope="module", params=["connect-2.8.2", "dedicated-identity", "dedicated-default"])
def copied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HookedCopies]:
    """A lab without Airflow, and a hook that kills the process, or deletes the connectors."""
    state, (policy, choices) = tmp_path_factory.mktemp("lab"), choices_of(request.param)
    up(state, airflow=False, policy=policy, **choices)
    try:
        lab = Lab(state)
        with hook_of(lab, request.param) as hook, stepping(lab, tmp_path_factory.mktemp("steps")) as driver:
            made = HookedCopies(lab, driver, HookedSite(lab))
            made.hook = hook
            yield made
    finally:
        down(state)


@DELETED
def test_each_record_is_there(copied: HookedCopies, deletes: bool) -> None:
    """Two partitions, one with a log start above 0: records, settings and positions as on the source, record 0 too."""
    topic = copied.made(new_name(), 2, 200, **{"retention.ms": "86400000"})
    figures = copied.copied_again(topic, deletes)
    assert copied.site.settings(TARGET, copied.site.remote(topic))["retention.ms"] == "86400000"
    assert figures["verify_copies"]["records"] == 200
    copied.at_work()


def test_a_log_start_above_0(copied: HookedCopies) -> None:
    """The offset before it is written to the topic; what only the target held is exported."""
    topic = copied.made(new_name(), 2, 200)
    copied.site.delete_records(SOURCE, topic, 40)
    figures = copied.copied_again(topic, deletes=True)
    assert figures["verify_copies"]["records"] == 120
    assert figures["export_target_topics"]["target_only"] == 80


def test_others_get_no_record_twice(copied: HookedCopies) -> None:
    """A process that is killed has copied more than it has stored: other topics go on behind their last copy."""
    site, topic, busy = copied.site, copied.made(new_name()), new_name()
    site.create(busy, 3)
    site.numbered(busy, 3, 0, 90)
    site.await_copied(busy)
    with load_on(site, busy):
        copied.copied_again(topic, deletes=True)
    site.await_copied(busy)
    assert site.contents(TARGET, site.remote(busy)) == site.contents(SOURCE, busy)
    assert len(copied.hook.started) >= 2


def test_a_hook_that_starts_nothing_is_refused(copied: HookedCopies) -> None:
    """Before anything is touched."""
    topic = copied.made(new_name(), 1, 10)
    asked, copied.hook.starts = len(copied.hook.asked), False
    try:
        evidence = copied.run(topic, delete_target_topics=True)
    finally:
        copied.hook.starts = True
    assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "plan_re_replication")
    assert "does not start it" in evidence["reason_for_outcome"] and len(copied.hook.asked) == asked
    until(lambda: copied.hook.count() > 0, "the flow to run")
