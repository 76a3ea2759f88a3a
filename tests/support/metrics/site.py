"""A site on which every metric has a value: a running procedure at a gate, ended ones, documents, services, notices."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kafka_dr.actions.readiness.document import document_path
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.notices.service_notices import RECORDER, WATCHER
from kafka_dr.domain.readiness.lag import FlowLag, PartitionLag
from kafka_dr.domain.readiness.report import Checked, CompletedRun, Outlook, document_of
from kafka_dr.domain.readiness.signs import RecorderPace
from kafka_dr.domain.readiness.state import Gravity, ReadinessFinding
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.notices import NoticeState
from kafka_dr.procedure.entries import DrillJudged
from kafka_dr.recorder.journal_notes import name_in_journal
from kafka_dr.vocabulary import Entry, Step
from prometheus_client.parser import text_string_to_metric_families

from tests.support.facts import NO_FILE, whole

PAIR, FLOW = "primary+standby", ("primary", "standby")
TOKEN = "0123456789abcdef" * 4
LAG = FlowLag(
    (
        PartitionLag(TopicPartition("orders", 0), 7, 7, 700, 1, True),
        PartitionLag(TopicPartition("orders", 1), 3, 3, 900, 2, True),
    ),
    partitions=5,
    at=60.0,
)


def checked_at(now: datetime) -> Checked:
    """Return what a check found just now, with a value for each figure."""
    return Checked(
        *FLOW,
        now,
        [ReadinessFinding("recorder_silent", Gravity.FAILED, "", "40 s")],
        Outlook(certain=7, possible=10, rereads=5, seconds=42.5),
        lag=LAG.as_dict(),
        ages={"heartbeat": 1.0, "checkpoint": 2.0, "offset_sync": 3.0, "sample": 4.0, "watcher": 5.0},
        certificates={"primary CA": now.timestamp() + 90_000, "standby CA": now.timestamp() + 80_000},
        last_run=CompletedRun("p-0", "planned_failover", (now - timedelta(hours=1)).isoformat(), 12.5),
        drill=DrillJudged(
            source="primary",
            target="standby",
            drill_kind="canary",
            verdict="passed",
            fingerprint={},
            procedure_id="d-1",
            ended_at=(now - timedelta(days=9)).isoformat(),
        ),
        drill_days=92.0,
        recorder=asdict(RecorderPace(10.0, 9.5, 2, 20.0)),
    )


def samples_in(text: str) -> dict[tuple[str, ...], float]:
    """Return (series, values of its labels by the labels' names) -> value, read by Prometheus' own parser."""
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class MetricsSite:
    """A topology that switches metrics on, a journal, and documents."""

    def __init__(self, bench: Any) -> None:
        self.bench, self.now = bench, datetime.now(UTC)
        self.evidence = Path(json.loads(bench.topology.read_text())["evidence"])
        self.state(metrics={"connection": "metrics"}, recorder={"archive": f"file://{bench.folder}/archive"})
        self.limit(readiness={"lag_records": 100, "lag_bytes": 1000}, objectives={"rto_seconds": 300})

    def state(self, **settings: Any) -> None:
        """State settings of the topology; None takes one out."""
        document = json.loads(self.bench.topology.read_text()) | settings
        self.bench.topology.write_text(json.dumps({k: v for k, v in document.items() if v is not None}))

    def limit(self, **settings: Any) -> None:
        """State settings of each flow."""
        flows = [flow | settings for flow in json.loads(self.bench.topology.read_text())["flows"]]
        self.state(flows=flows)

    def journal(self, seconds_ago: float = 0.0) -> Journal:
        """Return the journal as it was some time ago."""
        return Journal(self.bench.url, clock=lambda: self.now - timedelta(seconds=seconds_ago))

    def write(self, about: str, step: str, kind: str, seconds_ago: float = 0.0, **payload: Any) -> None:
        """Write one entry of a procedure."""
        self.journal(seconds_ago).append(about, step, kind, 0, whole(step, Entry(kind), payload, NO_FILE))

    def opened(self, about: str, seconds_ago: float, dag_id: str = "planned_failover", source: str = "primary") -> None:
        """Open a run whose fence may last ten minutes."""
        target = "standby" if source == "primary" else "primary"
        run = {"dag_id": dag_id, "run_id": about, "source": source, "target": target, "reason": "why"}
        request = {"deadlines": {"max_fence_seconds": 600.0, "approval_wait_seconds": 900.0}}
        self.write(about, Step.OPEN_PROCEDURE, Entry.OPENED, seconds_ago, **run, request=request)

    def closed(self, about: str, outcome: str, seconds_ago: float) -> None:
        """End a run."""
        end = {"outcome": outcome, "failing_step": None, "reason_for_outcome": "because"}
        self.write(about, Step.CLOSE_PROCEDURE, Entry.CLOSED, seconds_ago, **end)

    def fenced(self, seconds_ago: float = 100.0) -> None:
        """Let a procedure hold the clusters, fence clients and ask a person."""
        self.journal(200).take_lease(PAIR, "p-2")
        for step, ago in ((Step.FENCE_PRODUCERS, seconds_ago), (Step.REVIEW_TRANSLATION, seconds_ago - 10)):
            self.journal(ago).append("p-2", step, Entry.INTENT, 1, {"try": 1})

    def document(self, now: datetime | None = None) -> None:
        """Write the document of the flow, and of the flow back at rest."""
        now = now or self.now
        back = Checked(*reversed(FLOW), now, [], Outlook(), at_rest=True)
        for checked in (checked_at(now), back):
            path = document_path(str(self.evidence), checked.source, checked.target)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(document_of(checked, None)))

    def fill(self) -> None:
        """Give every series a value."""
        self.opened("p-0", 5000, dag_id="failback")
        self.closed("p-0", "completed", 4000)
        self.opened("p-1", 3000)
        self.closed("p-1", "failed", 2000)
        self.opened("p-2", 199)
        self.fenced()
        for name in (WATCHER, RECORDER, name_in_journal("primary->standby")):
            self.journal().show_life(name)
        self.journal(50).claim_notice("n-1", "webhook hook")
        self.journal(50).settle_notice("n-1", "webhook hook", NoticeState.NOT_SENT, "410")
        self.document()
