"""What proves that a changed flow works: tasks, copies of added topics, checkpoints; and what is refused beforehand."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kafka_dr.actions.flow_change import checkpoint_progress
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import Contradiction, DeadlinePassed, NotReady
from kafka_dr.hooks.brokers.record import Record, Tail

from tests.plugins.kafka_dr.steps.change.changed_flow import CHECKPOINT, SOURCE, A, B, Change

CHECKPOINTS = TopicPartition("primary.checkpoints.internal", 0)


@pytest.fixture
def change(bench: Any) -> Change:
    """A flow under identity naming, with records to copy."""
    flow = Change(bench)
    flow.write(A, 5)
    return flow


def test_a_connector_without_tasks_is_no_success(change: Change) -> None:
    """It is RUNNING, and copies nothing: it could not list the topics when it began."""
    change.stopped(settings={"tasks.max": "2"})
    change.change()
    change.worker.assigned = {}
    with pytest.raises(DeadlinePassed, match="connectors have no task: p.source"):
        change.resume_flow()


def added(change: Change) -> None:
    """Take extra.b out of the flow, write to it, and stop the flow to include it again."""
    change.whole(remove_topics=r"extra\..*")
    change.evidence()
    change.write(B, 30)
    change.write(A, 5)
    change.stopped(add_topics=r"extra\..*")
    change.change()


def test_an_added_topic_without_a_task_is_no_success(change: Change) -> None:
    """MirrorMaker 2 does not list a topic that it may not describe; the other topics flow."""
    added(change)
    change.worker.assigned = {SOURCE: {0: [A]}}
    with pytest.raises(DeadlinePassed, match="no task mirrors added topics: extra.b"):
        change.resume_flow()


def test_an_added_topic_of_which_nothing_is_copied_is_no_success(change: Change) -> None:
    """Another topic of the same task flows."""
    added(change)
    copy = change.copy
    change.copy = lambda tp, begin, end: copy(tp, begin, end) if tp == A else None
    with pytest.raises(DeadlinePassed, match="tasks have copied no record: added extra.b: extra.b-0"):
        change.resume_flow()


def test_topics_that_no_task_mirrors_are_named(change: Change) -> None:
    """They were not mirrored before, either: no reason to take the change back."""
    change.write(B, 5)
    change.stopped(settings={"tasks.max": "2"})
    change.change()
    change.worker.assigned = {SOURCE: {0: [A]}}
    assert "no task mirrors extra.b" in change.resume_flow().flows


def test_a_topic_that_would_begin_at_its_end_is_refused(change: Change) -> None:
    """With auto.offset.reset=latest, the records that it holds would never be copied."""
    change.worker.configs[SOURCE] |= {
        "topics.exclude": r"__.*,extra\..*",
        "source.consumer.auto.offset.reset": "latest",
    }
    change.worker.replicated, change.standby.log_ends[B] = {A: 9}, 0
    with pytest.raises(NotReady, match="begins topics without an offset at their end.*added: extra.b"):
        change.plan(add_topics=r"extra\..*")
    change.evidence()
    change.worker.replicated, change.standby.log_ends[B] = {A: 9, B: 9}, 10
    assert change.plan(add_topics=r"extra\..*")["adds"] == ["extra.b"]


@pytest.mark.parametrize("other", [{"topics": "orders"}, {"tasks.max": "7"}])
def test_a_configuration_that_changes_while_the_flow_is_stopped_is_left_alone(
    change: Change, other: dict[str, str]
) -> None:
    """Also in the settings that were to be changed; a part of the plan's own changes is none of them."""
    change.stopped(settings={"tasks.max": "2", "offset.lag.max": "5"})
    change.worker.configs[SOURCE] |= {"offset.lag.max": "5"}
    change.change()
    change.worker.configs[SOURCE] |= other
    with pytest.raises(Contradiction, match="was changed after the plan was made. Seen: p.source"):
        change.change()


def test_a_partition_that_would_be_copied_again_from_its_beginning_is_refused(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connect stores no offset, and the last copy is not on the source; the rollback changes no offset, and ends."""
    change.standby.records[A][9] = "of another"
    change.worker.replicated = {B: 9}
    change.stopped(settings={"tasks.max": "2"})
    with pytest.raises(Contradiction, match="stores no offset of partitions that have copies.*orders-0"):
        change.change()
    assert change.worker.offsets_set == {}
    assert change.give_back().settings_restored == [SOURCE]


def with_checkpoints(change: Change, age: float, follows: bool) -> None:
    """Let the checkpoints topic have a record of an age; after the resume the connector writes another, or none."""
    change.standby.partitions[CHECKPOINTS.topic] = {0: 1}
    change.standby.log_ends[CHECKPOINTS] = 3
    record = Record(*CHECKPOINTS, 2, int((time.time() - age) * 1000), False, None, b"c", ())
    make = change.bench.reader

    def reader(alias: str, isolation: str = "") -> Any:
        made = make(alias, isolation)
        last = made.last_records

        def last_records(partitions: Any, timeout: float = 60.0, take: Any = None) -> Any:
            wanted = list(partitions)
            return {CHECKPOINTS: Tail((record,), 0, 3)} if wanted == [CHECKPOINTS] else last(wanted, take)

        made.last_records = last_records
        return made

    change.bench.reader = reader
    resume = change.worker.resume

    def resumed(name: str, deadline: float, needs_tasks: bool = True) -> None:
        resume(name, deadline, needs_tasks)
        change.standby.log_ends[CHECKPOINTS] += follows and name == CHECKPOINT

    change.worker.resume = resumed


@pytest.mark.parametrize(
    ("age", "follows", "number", "told"),
    [
        (20, True, 1, "p.checkpoint writes checkpoints again"),
        (20, False, 0, "p.checkpoint wrote checkpoints before, and no new one was seen"),
        (4000, False, 0, "the tasks of p.checkpoint run; it wrote no checkpoint, as it does only when"),
    ],
)
def test_new_checkpoints_are_looked_for(change: Change, age: float, follows: bool, number: int, told: str) -> None:
    """The evidence says what was seen; none is no reason to take the change back."""
    with_checkpoints(change, age, follows)
    done = change.whole(settings={"tasks.max": "2"})
    assert (done.new_checkpoints, done.checkpoints[: len(told)]) == (number, told)
    assert change.evidence()["outcome"] == "completed"
    assert told in (change.procedure.artifacts.folder / "evidence.html").read_text()


def test_a_checkpoint_connector_that_writes_none_on_purpose(change: Change) -> None:
    """It is STOPPED, is set to write none, or has no task as no group reads topics of the flow."""
    change.worker.states[CHECKPOINT] = "STOPPED"
    assert change.whole(settings={"tasks.max": "2"}).checkpoints == "p.checkpoint is STOPPED, as before"
    change.evidence()
    change.worker.states[CHECKPOINT] = "RUNNING"
    change.worker.configs[CHECKPOINT]["emit.checkpoints.enabled"] = "false"
    change.write(A, 5)
    assert "is set to write no checkpoints" in change.whole(settings={"tasks.max": "3"}).checkpoints
    change.evidence()
    del change.worker.configs[CHECKPOINT]["emit.checkpoints.enabled"]
    change.write(A, 5)
    status = change.worker.status

    def without_tasks(name: str, timeout: float = 30.0) -> Any:
        seen = status(name, timeout)
        seen.tasks = {} if name == CHECKPOINT else seen.tasks
        return seen

    change.worker.status = without_tasks
    assert "p.checkpoint has no task, and needs none" in change.whole(settings={"tasks.max": "4"}).checkpoints


def test_a_new_checkpoint_is_waited_for_no_longer_than_records(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most `verify_seconds`, although MirrorMaker 2 writes checkpoints more seldom."""
    monkeypatch.setattr(checkpoint_progress, "_EMIT_SECONDS", 3600.0)
    with_checkpoints(change, 20, follows=False)
    begun = time.monotonic()
    assert change.whole(settings={"tasks.max": "2"}).new_checkpoints == 0
    assert time.monotonic() - begun < 20
