"""Each limit and each sign of life is judged; what is merely idle is not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.lag import FlowLag, PartitionLag
from kafka_dr.domain.readiness.movements import Movement, moved_on
from kafka_dr.domain.readiness.signs import (
    RecorderPace,
    WarmMachineProof,
    certificate_findings,
    growth_findings,
    heartbeat_findings,
    lag_findings,
    pace_findings,
    quiet_findings,
    recorder_findings,
    warm_machine_findings,
    watcher_findings,
)
from kafka_dr.domain.readiness.state import Gravity

LIMITS = (60.0, None, None)
DAY = 86_400.0


def lag(records: int, seconds: float, size: int = 0) -> FlowLag:
    """The lag of one partition whose oldest record is so old."""
    one = PartitionLag(TopicPartition("orders", 0), records, records, size, round(1000 * (1_000 - seconds)), True)
    return FlowLag((one,) if records else (), 3, 1_000.0)


@pytest.mark.parametrize(
    ("seen", "limits", "ids"),
    [
        (lag(0, 0), (60.0, 0, 0), []),
        (lag(10**6, 60, 10**9), LIMITS, []),
        (lag(1, 60.5), LIMITS, ["record_age"]),
        (lag(11, 1), (60.0, 10, None), ["lag_records"]),
        (lag(11, 1, 200), (60.0, None, 100), ["lag_bytes"]),
    ],
)
def test_lag_is_judged_by_age_and_where_stated_by_records_and_bytes(
    seen: FlowLag, limits: tuple[float, int | None, int | None], ids: list[str]
) -> None:
    """A limit that is reached is kept; one that is not stated is not judged."""
    assert [finding.id for finding in lag_findings(seen, *limits)] == ids


def test_growth_is_judged_by_its_share() -> None:
    """Nothing written is nothing missing; half of it is enough by default."""
    assert not [*growth_findings((10, 10), (10, 10), 0.5)] and not [*growth_findings((0, 100), (0, 50), 0.5)]
    assert [f.id for f in growth_findings((0, 100), (0, 49), 0.5)] == ["records_copied"]
    # A topic was deleted: both sums fall.
    assert not [*growth_findings((100, 10), (100, 10), 0.5)]


def test_signs_of_life_are_judged_by_their_age() -> None:
    """An unknown heartbeat is no finding here, because it is an unknown figure."""
    assert [f.id for f in heartbeat_findings(30.5, 30.0)] == ["replication_latency"]
    assert not [*heartbeat_findings(29, 30.0)] and not [*heartbeat_findings(None, 30.0)]
    assert not [*watcher_findings(59)] and [f.id for f in watcher_findings(61)] == ["watcher_silent"]
    assert "never" in next(watcher_findings(None)).text
    assert not [*recorder_findings(89, 10)] and [f.id for f in recorder_findings(91, 10)] == ["recorder_silent"]
    assert not [*recorder_findings(230, 60)] and "no sample" in next(recorder_findings(None, 10)).text


def test_a_recorder_that_falls_behind_is_a_warning() -> None:
    """By its samples, or by what waits for a pair; one that states nothing is not judged."""
    assert not [*pace_findings(None)] and not [*pace_findings(RecorderPace(10, None, 0, 0))]
    assert not [*pace_findings(RecorderPace(10, 9.5, 7, 90))]
    late, waiting = pace_findings(RecorderPace(10, 14, 1234, 340))
    assert {late.severity, waiting.severity} == {Gravity.WARNING} and late.key != waiting.key
    assert late.text == "the flight recorder takes a sample every 14 s (at most 10 s)"
    assert waiting.text.startswith("1,234 partitions wait for a content pair of the recorder, the oldest for ")


@pytest.mark.parametrize("wrong", [{}, {"interval_seconds": "10"}, {"pairs_waiting": None}])
def test_a_sample_that_states_no_pace_has_none(wrong: dict[str, Any]) -> None:
    """Older recorders state none; whoever writes to the archive may state anything."""
    stated = {"interval_seconds": 10, "every_seconds": None, "pairs_waiting": 0, "pairs_wait_seconds": 0.0}
    assert RecorderPace.of(stated) == RecorderPace(10, None, 0, 0.0)
    assert RecorderPace.of(stated | wrong if wrong else {}) is None


def test_a_certificate_is_named_before_it_ends() -> None:
    """A warning first, which leaves the state; then a failed check."""
    found = {f.about: f.severity for f in certificate_findings({"a": DAY, "b": -1, "c": 15 * DAY}, 0.0, 14)}
    assert found == {"a": Gravity.WARNING, "b": Gravity.FAILED}


def quiet(newest: float | None, *moved: Movement | None, now: float = 600.0) -> list[str]:
    """The ids of what is found."""
    return [finding.id for finding in quiet_findings("checkpoints", newest, moved, now, 120.0)]


def test_an_internal_topic_is_quiet_only_if_all_its_causes_moved_and_time_has_passed() -> None:
    """Idle groups write no checkpoints; what moved a moment ago may write them soon."""
    moved, idle = Movement(5, 300.0, 0.0, 300.0), Movement(5, 300.0)
    assert quiet(-1.0, moved, moved) == quiet(None, moved) == ["checkpoints_quiet"]
    assert quiet(10.0, moved, moved) == quiet(-1.0, moved, idle) == quiet(-1.0, moved, None) == []
    assert quiet(-1.0, moved, now=419.0) == []


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12))
def test_a_movement_names_the_two_checks_between_which_the_sum_changed(sums: list[int]) -> None:
    """The last change counts, whatever came before."""
    movement = None
    for at, value in enumerate(sums):
        movement = moved_on(movement, {"orders": value, "audit": 7}, float(at))
    changes = [at for at in range(1, len(sums)) if sums[at] > sums[at - 1]]
    assert movement is not None and movement.sum == sums[-1] + 7
    expected = (float(changes[-1] - 1), float(changes[-1])) if changes else (None, None)
    assert (movement.changed_from, movement.changed_to) == expected


def test_topics_that_come_and_go_do_not_move() -> None:
    """A sum that changes with the topics it counts is no movement; one that stays, and grows meanwhile, is seen."""
    names = [f"topic-{number}" for number in range(200)]
    before = moved_on(None, dict.fromkeys(names, 5), 0.0)
    for changed in (names[:-1], [*names, "new"], []):
        after = moved_on(before, dict.fromkeys(changed, 5), 1.0)
        assert (after.changed_from, after.changed_to) == (None, None) and after.sum == 5 * len(changed)
        assert moved_on(after, dict.fromkeys(names, 5), 2.0).changed_to is None
    churned = moved_on(before, {**dict.fromkeys([*names[2:], "new"], 5), "topic-100": 6}, 1.0)
    assert (churned.changed_from, churned.changed_to) == (0.0, 1.0)


def test_a_warm_machine_must_prove_itself() -> None:
    """A proof that is as old as it may be still counts; the finding names the machine and its last run."""
    proof = WarmMachineProof("reconcile_clusters-1", 0.0)
    assert not [*warm_machine_findings("standby-1", proof, 31 * DAY, 31)]
    (old,) = warm_machine_findings("standby-1", proof, 32 * DAY, 31)
    (never,) = warm_machine_findings("standby-1", None, 0.0, 31)
    assert {old.id, never.id} == {"warm_machine_unproven"} and old.severity == never.severity == Gravity.UNVERIFIED
    assert old.text == (
        "`switchback run` has completed no procedure of this flow on standby-1 since reconcile_clusters-1,"
        " 32.0 days ago (at most 31)"
    )
    assert never.text == "`switchback run` has completed no procedure of this flow on standby-1"
