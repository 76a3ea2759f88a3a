"""Steps of reconcile_clusters: bounds that live writes do not disturb, differences, and the procedures beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.record import Record
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.run import Run
from kafka_dr.steps.reconciliation.compare_records import CompareRecords
from kafka_dr.steps.reconciliation.open_comparison import OpenComparison
from kafka_dr.steps.reconciliation.set_bounds import SetBounds
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.vocabulary import Step

from tests.support.facts import figures_of
from tests.support.failback_bench import ORDERS, PAIR, WayBack

STEPS = {
    Step.OPEN_PROCEDURE: OpenComparison,
    Step.SET_BOUNDS: SetBounds,
    Step.COMPARE_RECORDS: CompareRecords,
    Step.CLOSE_PROCEDURE: CloseProcedure,
}
ORDER = tuple(STEPS)


class Comparison:
    """Ten records of `orders` on both clusters of a bench, and runs of the procedure."""

    def __init__(self, bench: Any, jobs: Any) -> None:
        self.bench, self.jobs = bench, jobs
        self.source, self.target = bench.clusters["primary"], bench.clusters["standby"]
        bench.dag_id = "reconcile_clusters"
        bench.params = {"source": "primary", "target": "standby", "reason": "alike?"}
        for cluster in (self.source, self.target):
            self.put(cluster, ORDERS, range(100, 110))

    @staticmethod
    def put(cluster: Any, tp: TopicPartition, contents: Any, start: int = 0) -> None:
        """Give a partition these records, from an offset on."""
        cluster.partitions.setdefault(tp.topic, {})[tp.partition] = 1
        cluster.records[tp] = {start + row: str(content) for row, content in enumerate(contents)}
        cluster.log_starts[tp], cluster.log_ends[tp] = start, start + len(cluster.records[tp])

    def run(self, last: Step = Step.COMPARE_RECORDS, run_id: str = "r1", **params: Any) -> Run:
        """Run the steps up to one, as Airflow does."""
        self.bench.params = self.bench.params | params
        for step in ORDER[: ORDER.index(last) + 1]:
            task = STEPS[step](task_id=step.value)
            task.upstream_task_ids = {ORDER[ORDER.index(step) - 1].value} if step != ORDER[0] else set()
            task.execute(self.bench.context(run_id))
        return self.bench.procedure(run_id)

    def bounds(self, **params: Any) -> tuple[dict[str, Any], dict[TopicPartition, dict[str, Any]]]:
        """Set the bounds; return the figures, and by partition the row of both files."""
        procedure = self.run(Step.SET_BOUNDS, **params)
        figures = figures_of(procedure, Step.SET_BOUNDS)
        frames = [
            procedure.artifacts.load(figures[name]).set_index(["topic", "partition"]) for name in ("bounds", "judged")
        ]
        rows = frames[0].join(frames[1]).astype(object).where(lambda frame: frame.notna(), None)
        return figures, {TopicPartition(*key): row for key, row in rows.to_dict("index").items()}

    def figures(self, **params: Any) -> dict[str, Any]:
        """Compare; return the figures."""
        return figures_of(self.run(**params), Step.COMPARE_RECORDS)


@pytest.fixture
def made(bench: Any, without_spark: Any) -> Comparison:
    """A comparison under identity naming."""
    return Comparison(bench, without_spark(bench))


def test_equal_clusters(made: Comparison) -> None:
    """Nothing differs; the evidence is that of a completed run without a warning."""
    procedure = made.run(Step.CLOSE_PROCEDURE)
    figures = figures_of(procedure, Step.COMPARE_RECORDS)
    assert (figures["equal"], figures["differing"], figures["partitions"]) == (10, 0, 1)
    evidence = json.loads((procedure.artifacts.folder / "evidence.json").read_text())
    assert (evidence["outcome"], evidence["warnings"]) == ("completed", [])


def test_differences_are_a_result_with_a_warning(made: Comparison) -> None:
    """Counts by partition with samples, and the list; all are kept beside the evidence."""
    made.put(made.target, ORDERS, [100, 101, 103, 999, 105, 106, 107, 107, 108, 109])
    procedure = made.run(Step.CLOSE_PROCEDURE)
    figures = figures_of(procedure, Step.COMPARE_RECORDS)
    kinds = ("missing", "extra", "altered", "repeated")
    assert [figures[kind] for kind in kinds] == [1, 0, 1, 1]
    (row,) = figures["partitions_that_differ"]
    assert [(one["kind"], one["source_offset"], one["target_offset"]) for one in row["samples"]] == [
        ("missing", 2, None),
        ("altered", 4, 3),
        ("repeated", None, 7),
    ]
    assert (procedure.artifacts.folder / figures["folder"]["folder"] / "differences" / row["file"]).exists()
    evidence = json.loads((procedure.artifacts.folder / "evidence.json").read_text())
    assert evidence["outcome"] == "completed" and "1 missing on the target" in evidence["warnings"][0]
    assert "another content" in (procedure.artifacts.folder / "evidence.html").read_text()


def test_the_sources_end_is_read_after_the_targets(made: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """And Connect's offsets before both: what is written meanwhile stands in the source's range alone."""
    asked: list[str] = []
    for cluster in (made.source, made.target):
        ends = cluster.ends
        monkeypatch.setattr(cluster, "ends", lambda *a, c=cluster, e=ends, **k: (asked.append(c.alias), e(*a, **k))[1])
    worker = made.bench.workers["standby"]
    stored = worker.offsets
    monkeypatch.setattr(worker, "offsets", lambda *a, **k: (asked.append("connect"), stored(*a, **k))[1])
    made.bounds()
    assert asked == ["connect", "standby", "primary"]


def test_bounds_of_whole_logs(made: Comparison) -> None:
    """By what the logs and Connect state; a topic that the target lacks is named."""
    made.put(made.source, TopicPartition("born", 0), range(5))
    made.source.settings["orders"] = {"cleanup.policy": "compact"}
    figures, rows = made.bounds()
    orders, born = rows[ORDERS], rows[TopicPartition("born", 0)]
    assert (figures["topics"], figures["partitions"], figures["offsets"]) == (2, 2, 25)
    assert (figures["absent"], figures["compacted"], figures["notes"]) == (["born"], ["orders"], [])
    names = ("source_start", "cut_off", "target_start", "boundary", "judged_from", "judged_to", "replicated")
    assert [orders[name] for name in names] == [0, 10, 0, 10, 0, 10, 10]
    assert [born[name] for name in names] == [0, 5, None, None, 0, 5, None]
    assert orders["source_compacted"]


def test_a_topic_that_the_target_lacks_is_a_warning(made: Comparison) -> None:
    """Its records are behind as long as Connect states nothing else; the other topics are compared."""
    made.put(made.source, TopicPartition("born", 0), range(5))
    procedure = made.run(Step.CLOSE_PROCEDURE)
    figures = figures_of(procedure, Step.COMPARE_RECORDS)
    assert (figures["equal"], figures["behind"], figures["differing"]) == (10, 5, 0)
    evidence = json.loads((procedure.artifacts.folder / "evidence.json").read_text())
    assert evidence["warnings"] == ["standby lacks 1 topic of the flow: born."]


def test_chosen_topics(made: Comparison) -> None:
    """The param topics may choose some of the flow's."""
    made.put(made.source, TopicPartition("born", 0), range(5))
    assert list(made.bounds(topics="bo.*")[1]) == [TopicPartition("born", 0)]


def test_no_chosen_topic_is_refused(made: Comparison) -> None:
    """Nothing would be compared."""
    with pytest.raises(AirflowFailException, match="No topic is compared"):
        made.run(Step.SET_BOUNDS, topics="none")


def test_without_connect_the_tail_is_behind(made: Comparison) -> None:
    """It is said why; what is known of the order still counts."""
    made.bench.workers["standby"].away = True
    made.put(made.target, ORDERS, [100, *range(102, 108)])
    procedure = made.run()
    bounds, figures = (figures_of(procedure, step) for step in (Step.SET_BOUNDS, Step.COMPARE_RECORDS))
    assert "Connect's stored offsets could not be read" in bounds["notes"][0]
    assert (figures["missing"], figures["behind"]) == (1, 2)


def test_an_offset_beyond_the_log_is_named(made: Comparison) -> None:
    """It is that of a longer log."""
    made.bench.workers["standby"].replicated = {ORDERS: 20}
    figures, rows = made.bounds()
    assert rows[ORDERS]["replicated"] is None and "longer log: orders-0" in figures["notes"][0]


def test_after_a_move_to_the_target_logs_are_compared_as_they_were_then(bench: Any, without_spark: Any) -> None:
    """What clients write on the target since, and what the flow back copies, is not compared."""
    way = WayBack(bench)
    way._close(way.procedure)
    made = Comparison(bench, without_spark(bench))
    made.put(made.target, ORDERS, [*range(100, 110), 900, 901])
    made.put(made.source, ORDERS, [*range(100, 110), 900])
    procedure = made.run(run_id="c1")
    bounds, figures = (figures_of(procedure, step) for step in (Step.SET_BOUNDS, Step.COMPARE_RECORDS))
    assert bounds["limited_by"] == way.failover.id
    assert (figures["source_records"], figures["target_records"], figures["differing"]) == (10, 10, 0)


def test_copies_whose_original_is_gone_are_named(make_bench: Callable[..., Any], without_spark: Any) -> None:
    """By the prefix of their names."""
    bench = make_bench(naming={"policy": "default"})
    made = Comparison(bench, without_spark(bench))
    made.put(made.target, TopicPartition("primary.orders", 0), range(100, 110))
    made.put(made.target, TopicPartition("primary.gone", 0), range(3))
    figures, rows = made.bounds()
    assert figures["only_on_target"] == ["primary.gone"] and rows[ORDERS]["target_topic"] == "primary.orders"


def test_times_and_offsets_choose_records(made: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition's own range counts before the times; the target's range follows the timestamps."""
    for cluster, late in ((made.source, 0), (made.target, 5)):
        made.put(cluster, ORDERS, range(10_000))
        made.put(cluster, TopicPartition("other", 0), range(10_000))
        monkeypatch.setattr(
            cluster, "offsets_at", lambda times, late=late: {tp: at // 1000 + late for tp, at in times.items()}
        )
    records = {ORDERS: [Record("orders", 0, 4_000, 4_000_000, False, None, None, ())]}
    reader = SimpleNamespace(ranges=lambda spans, *_, **__: {tp: records[tp] for tp in spans})
    monkeypatch.setattr(made.bench, "reader", lambda *_: reader)
    since, until = ("1970-01-01T00:50:00Z", "1970-01-01T01:40:00Z")
    _, rows = made.bounds(since=since, until=until, offset_ranges={"orders:0": "4000-"})
    names = ("source_start", "cut_off", "target_start", "boundary", "judged_from", "judged_to")
    assert [rows[TopicPartition("other", 0)][name] for name in names] == [2000, 7000, 2005, 7005, 3000, 6000]
    assert [rows[ORDERS][name] for name in names] == [3000, 7000, 3005, 7005, 4000, 6000]


def test_a_partition_that_is_not_compared_is_refused(made: Comparison) -> None:
    """It is named."""
    with pytest.raises(AirflowFailException, match="A partition of offset_ranges is not compared. Seen: orders-7"):
        made.run(Step.SET_BOUNDS, offset_ranges={"orders:7": "0-5"})


def test_log_starts_that_have_risen_are_read_again(made: Comparison) -> None:
    """What retention has deleted since the bounds were set is no difference."""
    made.run(Step.SET_BOUNDS)
    for cluster, start in ((made.source, 2), (made.target, 4)):
        cluster.log_starts[ORDERS] = start
        cluster.records[ORDERS] = {o: c for o, c in cluster.records[ORDERS].items() if o >= start}
    figures = made.figures()
    assert (figures["differing"], figures["cut"], figures["equal"]) == (0, 2, 6)


def test_it_runs_beside_a_procedure_that_holds_the_pair(made: Comparison) -> None:
    """It takes a lease of another name, and no cool-down follows it."""
    made.bench.journal.take_lease(PAIR, "planned_failover-r1")
    procedure = made.run(Step.CLOSE_PROCEDURE)
    assert procedure.pair == f"reconcile_clusters:{PAIR}"
    assert made.bench.journal.lease(PAIR).holder == "planned_failover-r1"
    made.run(Step.CLOSE_PROCEDURE, run_id="r2")


def test_one_comparison_after_the_other(made: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one is refused while the first may still run; one that has been silent for too long is ended."""
    made.run(Step.SET_BOUNDS)
    with pytest.raises(AirflowFailException, match="Another comparison of these clusters has not ended"):
        made.run(Step.OPEN_PROCEDURE, run_id="r2")
    monkeypatch.setattr(Journal, "now", lambda self: datetime.now(UTC) + timedelta(seconds=3_700))
    assert made.run(run_id="r3").lease.ever_held
    with pytest.raises(AirflowFailException):
        made.run(Step.COMPARE_RECORDS, run_id="r1")


def test_a_job_without_result_changes_nothing(made: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends as refused, and the next one may begin at once."""
    monkeypatch.setattr(made.source, "starts", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        made.run(Step.SET_BOUNDS)
    close = CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value)
    with pytest.raises(AirflowFailException, match="refused: set_bounds"):
        close.execute(made.bench.context("r1"))
    monkeypatch.undo()
