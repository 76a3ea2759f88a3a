"""Two clusters with real logs in memory, between which a Connect worker copies as MirrorMaker 2 does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import OffsetSync, encode_offset_sync
from kafka_dr.domain.re_replication.starts import RESET
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.hooks.brokers.record import OffsetSpan, Record, Tail, key_and_value
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.run import Run
from kafka_dr.procedures import RE_REPLICATE_TOPICS
from kafka_dr.steps.gate import ProcedureGate
from kafka_dr.steps.re_replication.approve_re_replication import ApproveReReplication
from kafka_dr.steps.re_replication.export_target_topics import ExportTargetTopics
from kafka_dr.steps.re_replication.place_target_groups import PlaceTargetGroups
from kafka_dr.steps.re_replication.plan_re_replication import PlanReReplication
from kafka_dr.steps.re_replication.recreate_target_topics import RecreateTargetTopics
from kafka_dr.steps.re_replication.seed_replication import SeedReplication
from kafka_dr.steps.re_replication.start_replication import StartReplication
from kafka_dr.steps.re_replication.stop_mirror_maker import StopFlow
from kafka_dr.steps.re_replication.verify_copies import VerifyCopies
from kafka_dr.vocabulary import Step

from tests.support.bench import Bench
from tests.support.clusters import Cluster, Message
from tests.support.connect import Worker
from tests.support.facts import asked_by

SYNCS, CHECKPOINTS = "mm2-offset-syncs.standby.internal", "primary.checkpoints.internal"
#: A topology whose flow has no Connect worker.
HOOKED = {
    "flows": [
        {
            "source": "primary",
            "target": "standby",
            "stop_hook": "hook",
            "connectors": {"source": "p.source", "checkpoint": "p.checkpoint"},
        }
    ]
}
TASKS: dict[str, Any] = {
    Step.PLAN_RE_REPLICATION: PlanReReplication,
    Step.APPROVE_RE_REPLICATION: ApproveReReplication,
    Step.EXPORT_TARGET_TOPICS: ExportTargetTopics,
    Step.STOP_MIRROR_MAKER: StopFlow,
    Step.RECREATE_TARGET_TOPICS: RecreateTargetTopics,
    Step.SEED_REPLICATION: SeedReplication,
    Step.START_REPLICATION: StartReplication,
    Step.VERIFY_COPIES: VerifyCopies,
    Step.PLACE_TARGET_GROUPS: PlaceTargetGroups,
}


class LogCluster(Cluster):
    """A cluster whose topics have records, and whose groups have assignments."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.partitions, self.log_ends = {}, {}
        self.logs: dict[TopicPartition, dict[int, bytes]] = {}
        #: Active groups, with the topic that their member reads.
        self.reading: dict[str, str] = {}

    def append(self, topic: str, partition: int, value: bytes) -> int:
        """Append a record, and return its offset; a topic that is missing is created."""
        tp = TopicPartition(topic, partition)
        self.partitions.setdefault(topic, {})[partition] = 1
        offset = self.log_ends.get(tp, 0)
        self.logs.setdefault(tp, {})[offset] = value
        self.log_ends[tp] = offset + 1
        return offset

    def cut(self, topic: str, before: int) -> None:
        """Delete the records below an offset, as retention does."""
        for tp in [tp for tp in self.logs if tp.topic == topic]:
            self.logs[tp] = {offset: value for offset, value in self.logs[tp].items() if offset >= before}
            self.log_starts[tp] = before

    def values(self, topic: str, partition: int = 0) -> list[bytes]:
        """Return the values of a partition, in order."""
        return [value for _, value in sorted(self.logs.get(TopicPartition(topic, partition), {}).items())]

    def delete_topics(self, names: Iterable[str], *rest: Any, **more: Any) -> list[str]:
        """Delete topics with their records, and the groups' positions on them."""
        gone = super().delete_topics(names, *rest, **more)
        for tp in [tp for tp in self.logs if tp.topic in gone]:
            del self.logs[tp]
        for held in self.committed.values():
            for tp in [tp for tp in held if tp.topic in gone]:
                del held[tp]
        for name in gone:
            self.settings.pop(name, None)
        return gone

    def groups(self) -> dict[str, Any]:
        """Return groups; those in `reading` have a member with an assignment."""
        known = super().groups()
        for name, topic in self.reading.items():
            member = SimpleNamespace(client_id="c", host="h", assignment=(TopicPartition(topic, 0),))
            known[name] = SimpleNamespace(name=name, state="Stable", empty=False, members=[member])
        return known


class LogReader:
    """Reads a cluster's logs as `RecordReader` does."""

    def __init__(self, cluster: LogCluster) -> None:
        self._cluster = cluster

    def spans(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetSpan]:
        """Return log starts and ends."""
        unique = list(partitions)
        starts, ends = self._cluster.starts(unique), self._cluster.ends(unique)
        return {tp: OffsetSpan(starts[tp], ends[tp]) for tp in unique}

    def scan(
        self, spans: Mapping[TopicPartition, OffsetSpan], _seconds: float = 60.0, take: Any = lambda message: message
    ) -> Iterator[Any]:
        """Yield the records of the spans."""
        for tp, span in spans.items():
            for offset, value in sorted(self._cluster.logs.get(tp, {}).items()):
                if span.start <= offset < span.end:
                    yield take(Message(Record(*tp, offset, 1_000, False, b"k", value, ())))

    def last_records(self, partitions: Iterable[TopicPartition], take: Any, n: int = 1) -> dict[TopicPartition, Tail]:
        """Return the last n records of each partition."""
        spans = self.spans(partitions)
        found = {tp: list(self.scan({tp: span}, take=take))[-n:] for tp, span in spans.items()}
        return {tp: Tail(tuple(found[tp]), span.start, span.end) for tp, span in spans.items()}

    def read_all(self, topic: str, take: Any, begin: Any = None) -> Iterator[Any]:
        """Yield keys and values of one of MirrorMaker 2's topics."""
        assert take is key_and_value
        yield from self._cluster.internal.get(topic, [])


class CopyingWorker(Worker):
    """A Connect worker whose source connector copies each record behind its offset, while it runs."""

    def __init__(self, site: CopyingSite) -> None:
        super().__init__({"p.source": "RUNNING", "p.checkpoint": "RUNNING"})
        self._site, self.replicated = site, {}
        self.settings = {"topics": "(?!__|mm2|primary\\.).*"}
        #: Copies of the next resume: how many records are copied a second time, and which are left out.
        self.repeats, self.leaves_out = 0, frozenset[bytes]()

    def resume(self, name: str, deadline: float, needs_tasks: bool = True) -> None:
        """Resume a connector; the source connector copies at once what is not copied yet."""
        super().resume(name, deadline, needs_tasks)
        if name == "p.source":
            self.copy()

    def copy(self) -> None:
        """Copy as MirrorMaker 2 does: from the offset behind the stored one, with an offset sync for each record."""
        source, target = self._site.source, self._site.target
        stored = self.kept.setdefault("p.source", dict(self.replicated))
        for tp, records in sorted(source.logs.items()):
            last = stored.get(tp)
            if last is None and self.config("p.source").get(RESET) == "latest":
                continue
            todo = [offset for offset in sorted(records) if last is None or offset > last]
            for offset in [*todo[: self.repeats], *todo]:
                if records[offset] not in self.leaves_out:
                    at = target.append(self._site.remote(tp.topic), tp.partition, records[offset])
                    self._site.syncs.append(encode_offset_sync(OffsetSync(*tp, offset, at)))
            if todo:
                stored[tp] = todo[-1]

    def offsets(self, name: str, timeout: float = 60.0) -> Any:
        """Return the stored offsets."""
        return SimpleNamespace(of=lambda alias: dict(self.kept.get(name, {})), aliases=frozenset({"primary"}))


class CopyingSite(Bench):
    """A site whose flow primary->standby copies, and runs of re_replicate_topics on it."""

    def __init__(self, folder: Path, policy: str = "default", hooked: bool = False, **params: Any) -> None:
        super().__init__(folder, RE_REPLICATE_TOPICS.dag_id, naming={"policy": policy}, **(HOOKED if hooked else {}))
        self._policy = policy
        self.source, self.target = LogCluster("primary"), LogCluster("standby")
        self.clusters = {"primary": self.source, "standby": self.target}
        self.syncs: list[tuple[bytes, bytes]] = []
        self.source.internal[SYNCS] = self.syncs
        self.target.internal[CHECKPOINTS] = []
        self.target.partitions[CHECKPOINTS] = {0: 1}
        self.worker = self.workers["standby"] = CopyingWorker(self)
        self.params |= {"topics": "orders", **params}
        self.runs = 0

    def remote(self, topic: str) -> str:
        """Return a topic's name on the standby."""
        return topic if self._policy == "identity" else f"primary.{topic}"

    def reader(self, alias: str, isolation: str = "read_uncommitted") -> Any:
        """Return a reader of a cluster's logs."""
        return LogReader(self.clusters[alias])

    def writer(self, alias: str) -> Any:
        """Return a writer to MirrorMaker 2's topics."""

        def write_all(topic: str, records: Iterable[tuple[int, bytes, bytes]]) -> list[str]:
            self.clusters[alias].internal[topic].extend((key, value) for _, key, value in records)
            return []

        return SimpleNamespace(write_all=write_all)

    def write(self, topic: str, count: int, partitions: int = 1, first: int = 0) -> None:
        """Write records on the primary, round robin."""
        for number in range(first, first + count):
            self.source.append(topic, number % partitions, b"%d" % number)

    def commit(self, alias: str, group: str, positions: Mapping[tuple[str, int], int]) -> None:
        """Give a group positions."""
        held = {TopicPartition(*place): Position(offset) for place, offset in positions.items()}
        self.clusters[alias].committed.setdefault(group, {}).update(held)

    def positions(self, alias: str, group: str) -> dict[tuple[str, int], int]:
        """Return a group's positions."""
        return {tuple(tp): held.offset for tp, held in self.clusters[alias].committed.get(group, {}).items()}

    def begin(self, **params: Any) -> Run:
        """Open a run."""
        self.params |= params
        self.runs += 1
        return self.opened(f"a{self.runs}")

    def step(self, run: Run, step: str) -> Any:
        """Run one step as Airflow would, and write its outcome; bob approves what a gate asks."""
        task = TASKS[step](task_id=str(step))
        if isinstance(task, ProcedureGate):
            subject, _, _ = asked_by(task, run)
            self.api.answer(step, subject)
            self.done(run, step, asked=True)
            return None
        outcome = task.act(run, self.context(run.identity.run_id))
        record_fact(run.authority, step, outcome)
        return outcome

    def whole(self, run: Run, until: str | None = None) -> dict[str, Any]:
        """Run the steps in order, up to one of them; return the outcomes by step."""
        outcomes = {}
        for step in TASKS:
            outcomes[step] = self.step(run, step)
            if step == until:
                break
        return outcomes
