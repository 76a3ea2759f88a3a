"""Where a flow was told to begin since clients came to its source: by what proves that nothing is left to be
mirrored where nobody wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka_dr.actions.history.seeds import SeededOffset, seeded_offsets
from kafka_dr.actions.replication.drain import Drain
from kafka_dr.actions.replication.reverse import note_ends
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.entries import ProducersFenced
from kafka_dr.procedure.progress import Progress
from kafka_dr.vocabulary import Entry, Step

from tests.support.failback_bench import BACK, ORDERS, PAIR, WayBack


def seeded(way: WayBack, replicated: int, tail: int) -> WayBack:
    """The failback has found where nothing was mirrored any more, and has told the flow back where to begin."""
    way.bench.done(
        way.procedure,
        Step.FIND_STRANDED_RECORDS,
        after=way.failover.id,
        frontier=way.procedure.artifacts.save("frontier", partitions_frame({ORDERS: tail}, "source_tail")),
    )
    way.bench.done(
        way.procedure,
        Step.SEED_FLOW_BACK,
        seeds=way.procedure.artifacts.save("flow_back_seeds", partitions_frame({ORDERS: replicated}, "replicated")),
    )
    return way


def draining(way: WayBack) -> Drain:
    """The step that waits for zero lag, once nobody writes on the new primary any more."""
    way.bench.done(way.procedure, Step.CHECK_READINESS, isolation="read_uncommitted")
    way.bench.done(way.procedure, Step.FORECAST, plan={"topics": [["orders", "orders", 1, "id-orders"]]})
    way.bench.done(
        way.procedure,
        Step.FENCE_PRODUCERS,
        cut_off=way.procedure.artifacts.save(
            "cut_off", partitions_frame({ORDERS: way.standby.log_ends[ORDERS]}, "offset")
        ),
    )
    return Drain(way.procedure)


def test_the_newest_seed_counts(bench: Any) -> None:
    """The failover's own, and after it that of each failback, beside where the target was proven to end."""
    way = WayBack(bench)
    assert seeded_offsets(way.procedure) == {ORDERS: SeededOffset(9, 10)}
    assert seeded_offsets(seeded(way, 12, 99).procedure) == {ORDERS: SeededOffset(12, 10)}


def test_after_a_lost_source_the_failback_has_found_the_end(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """There was no cut-off; before it has looked, nothing is told."""
    way, done = WayBack(bench), Progress.done
    hidden = (way.failover.id, ProducersFenced)
    monkeypatch.setattr(Progress, "done", lambda self, fact: None if (self._id, fact) == hidden else done(self, fact))
    assert seeded_offsets(way.procedure) == {}
    assert seeded_offsets(seeded(way, 9, 7).procedure) == {ORDERS: SeededOffset(9, 7)}


def test_nobody_brought_clients_to_the_source(bench: Any) -> None:
    """A first failover; one that was taken back; and the other way round."""
    way = WayBack(bench)
    assert seeded_offsets(way.failover) == {}
    way.bench.journal.append(
        way.failover.id, Step.RETURN_TO_SOURCE, Entry.OUTCOME, way.bench.journal.lease(PAIR).epoch, {"touched": True}
    )
    assert seeded_offsets(way.procedure) == {}


class Resumed(WayBack):
    """The failover resumed the flow back when its copies ended at 6."""

    def _moved(self, seeded: bool, started: bool) -> None:
        super()._moved(seeded, started)
        note_ends(self.failover, Step.START_REVERSE_REPLICATION, {TopicPartition("standby.orders", 0): 6})


def test_a_flow_that_was_not_resumed_by_the_procedure_may_have_copied_anything(make_bench: Callable[..., Any]) -> None:
    """Nobody knows where its copies ended, under names that part the directions."""
    assert (
        seeded_offsets(WayBack(make_bench(naming={"policy": "default", "separator": "."}), policy="default").procedure)
        == {}
    )


def test_names_that_part_the_directions_leave_behind_what_was_stranded(make_bench: Callable[..., Any]) -> None:
    """A partition that nobody writes to since clients came: its tail stays where it is, and the copies are as they
    were before the flow was resumed.
    """
    way, copy = (
        Resumed(make_bench(naming={"policy": "default", "separator": "."}), policy="default"),
        TopicPartition("standby.orders", 0),
    )
    assert seeded_offsets(way.procedure) == {ORDERS: SeededOffset(9, 6)}
    way.primary.partitions["standby.orders"] = {0: 1}
    way.write("standby", 9, "stranded long ago")
    way.write("primary", 5, "copied", copy)
    way.worker.kept[BACK] = {ORDERS: 9}
    drain = draining(way)
    assert [view.shared for view in drain._with_shared(drain._views([ORDERS]))] == [True]
    way.primary.log_ends[copy] = 5
    assert [view.shared for view in drain._with_shared(drain._views([ORDERS]))] == [False], "the copies lost their tail"


@pytest.mark.parametrize(
    ("target_end", "replicated", "shared"), [(13, 9, True), (10, 9, True), (9, 9, False), (13, 8, False)]
)
def test_what_was_stranded_does_not_keep_a_quiet_partition_from_being_drained(
    bench: Any, target_end: int, replicated: int, shared: bool
) -> None:
    """Only where the target still has what it had, and the source's last record counts as copied."""
    way = seeded(WayBack(bench), replicated, 10)
    way.write("standby", 9, "shared")
    way.write("primary", target_end - 1, "stranded")
    way.worker.kept[BACK] = {ORDERS: 9}
    drain = draining(way)
    assert [view.shared for view in drain._with_shared(drain._views([ORDERS]))] == [shared]
