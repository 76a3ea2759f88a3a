"""What a failover now would cost: by the logs, by the recorder if the source is away, by this flow's own last runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.actions.readiness.outlook import outlook_of
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.lag import FlowLag, PartitionLag
from kafka_dr.domain.recorder_rows import Kind
from kafka_dr.procedure.find import flows_to_check
from kafka_dr.vocabulary import Entry, Step

from tests.support.bench import ORDERS, Bench
from tests.support.lost_source import Recorder, seen

LAG = FlowLag((PartitionLag(ORDERS, 7, 5, 70, 1_000, True),), 1, 1_764_000_000.0)


@pytest.fixture
def bench(make_bench: Callable[..., Bench], quick_path: Path) -> Bench:
    """A bench with a recorder's archive."""
    return make_bench(recorder={"archive": f"file://{quick_path}/archive"})


@pytest.fixture
def recorder(quick_path: Path) -> Recorder:
    """The recorder that writes to it."""
    return Recorder(quick_path / "archive")


def run_of(bench: Bench) -> Any:
    """The flow's run of the check."""
    return flows_to_check("primary", "standby")[0]


def ran(bench: Bench, number: int, outcome: str = "completed", source: str = "primary", **evidence: Any) -> None:
    """A procedure of that flow has ended, with this evidence."""
    bench.params = {"source": source, "target": "standby" if source == "primary" else "primary", "reason": "r"}
    procedure = bench.opened(f"r{number}")
    figures = {"outcome": outcome, "failing_step": None, "reason_for_outcome": "", "digest": "d" * 64}
    bench.tell(procedure, Step.CLOSE_PROCEDURE, Entry.CLOSED, figures)
    bench.journal.release_lease("primary+standby", procedure.id, procedure.lease.epoch, outcome)
    folder = bench.folder / "evidence" / procedure.id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "evidence.json").write_text(json.dumps({"closed_at": f"2026-11-0{number}T00:00:00+00:00", **evidence}))


def test_by_the_logs(bench: Bench) -> None:
    """With the time at which they were compared; without a run, what runs state is unknown and not 0."""
    outlook = outlook_of(run_of(bench), LAG)
    assert (outlook.certain, outlook.possible) == (5, 7)
    assert outlook.at["possible"].startswith("2025-11-24")
    assert (outlook.seconds, outlook.rereads) == (None, None) and outlook.unknown.keys() == {"seconds", "rereads"}


def test_by_the_newest_completed_runs_of_this_flow(bench: Bench) -> None:
    """The greatest of three; runs of another flow, returned ones and those without a downtime do not count."""
    for number, (seconds, bound) in enumerate([(900, 9), (40, 3), (60, 0), (50, 2)], start=1):
        ran(bench, number, seconds={"downtime": seconds}, rereads={"bound": bound})
    ran(bench, 5, outcome="returned", seconds={"downtime": 800}, rereads={"bound": 0})
    ran(bench, 6, source="standby", seconds={"downtime": 700}, rereads={"bound": 0})
    ran(bench, 7, seconds={"downtime": None}, rereads=None)
    outlook = outlook_of(run_of(bench), LAG)
    assert (outlook.seconds, outlook.rereads) == (60, 3)
    assert outlook.at["seconds"] == outlook.at["rereads"] == "2026-11-04T00:00:00+00:00"


def test_evidence_that_is_gone_counts_for_nothing(bench: Bench) -> None:
    """Deleted by its retention, or damaged."""
    ran(bench, 1, seconds={"downtime": 40}, rereads={"bound": 3})
    (bench.folder / "evidence" / "planned_failover-r1" / "evidence.json").write_text("{")
    assert outlook_of(run_of(bench), LAG).seconds is None


@pytest.mark.parametrize(("target_now", "certain"), [(90, 10), (95, 5), (100, 0), (180, 0)])
def test_without_the_source_by_the_growth_since_a_sample(
    bench: Bench, recorder: Recorder, target_now: int, certain: int
) -> None:
    """Of 40 records since the first sample no more than the target's growth can have been copied."""
    recorder.sample(seen(60, 60))
    at = recorder.sample(seen(100, 80))
    bench.clusters["standby"].log_ends[ORDERS] = target_now
    bench.clusters["primary"].away = True
    outlook = outlook_of(run_of(bench), None)
    assert outlook.certain == certain and outlook.possible is None
    assert "nobody" in outlook.unknown["possible"] or "unknown" in outlook.unknown["possible"]
    assert outlook.at["certain"].startswith("2026-11-01T12:00:20") and at


def pair(upstream: int, downstream: int, source_end: int, records: int) -> tuple[Kind, dict[str, Any]]:
    """A content pair of a sample; `records`: how many the source has above it."""
    place = {"topic": "orders", "partition": 0, "upstream": upstream, "downstream": downstream}
    return Kind.PAIR, {**place, "source_end": source_end, "records": records}


@pytest.mark.parametrize(
    ("last", "certain"),
    [
        # All was copied: the target lacks only markers of transactions.
        (pair(198, 99, 200, 0), 0),
        # Every offset above the pair had a record.
        (pair(149, 75, 200, 50), 26),
        (pair(149, 99, 200, 50), 50),
        # Some offset above the pair had none.
        (pair(149, 99, 200, 49), 0),
    ],
)
def test_markers_of_transactions_are_not_counted_as_records(
    bench: Bench, recorder: Recorder, last: tuple[Kind, dict[str, Any]], certain: int
) -> None:
    """By the growth of both logs alone 100 records would be missing, although each is on the target."""
    recorder.sample(seen(0, 0))
    recorder.sample(seen(20, 10), pair(18, 9, 20, 0))
    recorder.sample(seen(200, 100), last)
    bench.clusters["standby"].log_ends[ORDERS] = 100
    assert outlook_of(run_of(bench), None).certain == certain


def test_a_partition_that_the_target_lacks_is_not_taken_for_lost(bench: Bench, recorder: Recorder) -> None:
    """Its growth is unknown: nothing of it is certain."""
    recorder.sample(seen(60, 60), seen(50, 0, "audit"))
    recorder.sample(seen(100, 80), seen(70, 0, "audit"))
    bench.clusters["standby"].log_ends |= {ORDERS: 100, TopicPartition("audit", 0): 0}
    assert outlook_of(run_of(bench), None).certain == 0


def test_without_source_and_samples_nothing_is_known(make_bench: Callable[..., Bench]) -> None:
    """Neither 0 nor a guess, with the reason; a target that is away is another reason."""
    bench = make_bench()
    outlook = outlook_of(run_of(bench), None)
    assert (outlook.certain, outlook.possible) == (None, None)
    assert "no flight recorder" in outlook.unknown["certain"]


def test_samples_without_a_target_say_nothing(bench: Bench, recorder: Recorder) -> None:
    """What it has now cannot be read."""
    recorder.sample(seen(60, 60))
    bench.clusters["standby"].away = True
    outlook = outlook_of(run_of(bench), None)
    assert outlook.certain is None and "standby" in outlook.unknown["certain"]
