"""A completed failover, and a failback after it, on a bench."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from kafka_dr.actions.old_source.armed_fence import arm_fence
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import TargetToOpen
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

from tests.support.facts import figures_of, stranded_topic

ORDERS = TopicPartition("orders", 0)
PAIR = "primary+standby"
#: The flow back, hosted beside the returned cluster; and the one that the failover stopped.
BACK, OLD = "s.source", "p.source"


class WayBack:
    """A failover of the clients from primary to standby, when both logs of `orders` ended at 10, and the failback.

    Attributes:
        failover: the procedure that moved the clients to the standby, with `groups` among them.
        procedure: the failback, once it was opened.
    """

    def __init__(
        self,
        bench: Any,
        started: bool = False,
        seeded: bool = True,
        armed: bool = False,
        policy: str = "identity",
        denies: Sequence[AclEntry] = (),
        groups: Sequence[str] = (),
        **choices: Any,
    ) -> None:
        self.bench, self.choices = bench, choices
        self.primary, self.standby = bench.clusters["primary"], bench.clusters["standby"]
        self.worker, self.old_worker = bench.workers["primary"], bench.workers["standby"]
        self.failover = bench.stopped(remote="orders" if policy == "identity" else "primary.orders")
        if denies:
            opening = TargetToOpen(removes_acl_entries=[], denies_old_flow=denies)
            record_fact(self.failover.authority, Step.OPEN_TARGET, opening)
        if groups:
            bench.done(self.failover, Step.DRAIN_CONSUMERS, groups=list(groups))
        self._moved(seeded, started)
        if armed:
            arm_fence(self.failover, Step.FENCE_SOURCE, ["orders"])
        self._close(self.failover)
        self.procedure: Run = self.another("b1")

    def _moved(self, seeded: bool, started: bool) -> None:
        """Write that the target was opened and the flow back seeded; start this flow if requested."""
        seeds = self.failover.artifacts.save("reverse_seeds", partitions_frame({ORDERS: 9}, "replicated"))
        self.bench.done(
            self.failover, Step.SEED_REVERSE_REPLICATION, **({"seeded": 1, "seeds": seeds} if seeded else {"seeded": 0})
        )
        self.bench.done(self.failover, Step.OPEN_TARGET)
        self.bench.done(self.failover, Step.START_REVERSE_REPLICATION, started=started)
        self.worker.states.update(dict.fromkeys((BACK, "s.checkpoint"), "RUNNING" if started else "STOPPED"))
        self.standby.acls -= {entry for entry in self.standby.acls if entry.permission == "deny"}

    def _close(self, procedure: Run) -> None:
        epoch = self.bench.journal.lease(PAIR).epoch
        self.bench.journal.append(
            procedure.id, Step.CLOSE_PROCEDURE, Entry.CLOSED, epoch, {"outcome": "completed", "digest": "d"}
        )
        self.bench.journal.release_lease(PAIR, procedure.id, epoch, "completed")

    def another(self, run_id: str) -> Run:
        """Close the run before and open a failback."""
        if getattr(self, "procedure", None) is not None:
            self._close(self.procedure)
        self.bench.dag_id = "failback"
        self.bench.params = {"source": "standby", "target": "primary", "reason": "it is back", **self.choices}
        self.procedure = self.bench.opened(run_id)
        return self.procedure

    def found(self, *rows: dict[str, Any], ends: dict[TopicPartition, int] | None = None) -> None:
        """Write the outcome of find_stranded_records, and the decision on the records in it."""
        folder, files = (
            self.procedure.artifacts.folder / "stranded-1",
            pd.DataFrame({"topic": [], "partition": [], "file": [], "sha256": []}),
        )
        self.bench.done(
            self.procedure,
            Step.FIND_STRANDED_RECORDS,
            after=self.failover.id,
            digest="f" * 64,
            topics=[stranded_topic(**row) for row in rows],
            compacted=[],
            bytes_there=100,
            returned_ends=self.procedure.artifacts.save(
                "returned_ends", partitions_frame(self.primary.log_ends if ends is None else ends, "offset")
            ),
            frontier=self.procedure.artifacts.save("frontier", partitions_frame({ORDERS: 10}, "source_end")),
            export={"folder": folder.name, "files": self.procedure.artifacts.save("exported_files", files)},
        )
        self.bench.done(self.procedure, Step.DECIDE_STRANDED_RECORDS, asked=False)

    def write(self, alias: str, offset: int, content: str, tp: TopicPartition = ORDERS) -> None:
        """Put a record into a log."""
        cluster = self.bench.clusters[alias]
        cluster.records.setdefault(tp, {})[offset] = content
        cluster.log_ends[tp] = offset + 1

    def run(self, task: Any, run_id: str | None = None) -> dict[str, Any]:
        """Execute a step as Airflow does; return its figures."""
        run_id = run_id or self.procedure.identity.run_id
        try:
            task.execute(self.bench.context(run_id))
        finally:
            # The step has taken a newer epoch.
            self.procedure = self.bench.procedure(run_id)
        return figures_of(self.procedure, task.task_id)
