"""A flow from primary to standby in memory, and runs of change_replication on it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.hooks.brokers.record import OffsetSpan, Record, Tail
from kafka_dr.hooks.brokers.record_writer import WriteAccepted
from kafka_dr.procedure.run import Run
from kafka_dr.steps.change.approve_change import ApproveChange
from kafka_dr.steps.change.change_connectors import ChangeConnectors
from kafka_dr.steps.change.plan_change import PlanChange
from kafka_dr.steps.change.resume_changed_flow import ResumeChangedFlow
from kafka_dr.steps.change.stop_changed_flow import StopChangedFlow
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import EXEMPT_TOPIC, Entry, Step

from tests.support.clusters import Message
from tests.support.facts import asked_by

A, B = TopicPartition("orders", 0), TopicPartition("extra.b", 0)
SOURCE, CHECKPOINT = "p.source", "p.checkpoint"
TOPICS = {"orders": {0: 1}, "extra.b": {0: 1}, "__consumer_offsets": {0: 1}, "connect-offsets": {0: 1}}


def reader_of(cluster: Any) -> SimpleNamespace:
    """Return a reader of the records of a cluster in memory, which have offsets and values."""

    def taken(tp: TopicPartition, begin: int, end: int, take: Callable[[Any], Any]) -> list[Any]:
        held = sorted((offset, value) for offset, value in cluster.records.get(tp, {}).items() if begin <= offset < end)
        return [take(Message(Record(*tp, offset, 1, False, None, value.encode(), ()))) for offset, value in held]

    def last_records(partitions: Iterable[TopicPartition], take: Callable[[Any], Any]) -> dict[TopicPartition, Tail]:
        ends = {tp: cluster.log_ends.get(tp, 0) for tp in partitions}
        return {tp: Tail(tuple(taken(tp, 0, end, take)[-1:]), 0, end) for tp, end in ends.items()}

    def scan(
        spans: Mapping[TopicPartition, OffsetSpan], timeout: float = 60.0, take: Callable[[Any], Any] = lambda m: m
    ) -> Iterator[Any]:
        for tp, span in spans.items():
            yield from taken(tp, *span, take)

    def ranges(
        spans: Mapping[TopicPartition, OffsetSpan], limit: int | None = None, take: Callable[[Any], Any] = lambda m: m
    ) -> dict[TopicPartition, list[Any]]:
        return {tp: taken(tp, *span, take)[:limit] for tp, span in spans.items()}

    def read_all(topic: str, take: Any = None, **_: Any) -> Iterator[Any]:
        return iter(())

    def values(tp: TopicPartition, begin: int, end: int) -> list[Any]:
        return taken(tp, begin, end, lambda message: SimpleNamespace(value=message.value()))

    return SimpleNamespace(last_records=last_records, scan=scan, ranges=ranges, read_all=read_all, range=values)


class OwnConnector:
    """The connector that copies a record of Switchback's own."""

    def __init__(self, change: Change, prefix: str = "") -> None:
        self.change, self.prefix, self.copies, self.stands = change, prefix, True, False
        self.config: dict[str, str] = {}
        change.bench.writer = lambda alias: SimpleNamespace(write=partial(self.append, change.bench.clusters[alias]))

    def append(self, cluster: Any, topic: str, partition: int, value: bytes) -> WriteAccepted:
        """Append a record."""
        tp = TopicPartition(topic, partition)
        end = cluster.log_ends.get(tp, 0)
        cluster.records.setdefault(tp, {})[end] = value.decode()
        cluster.log_ends[tp] = end + 1
        return WriteAccepted(0, end)

    def start(self, like: str, make: Callable[[Mapping[str, str]], dict[str, str]]) -> None:
        """Begin to copy."""
        self.stands, self.config = True, make(self.change.worker.configs[like])
        if self.copies:
            value = list(self.change.primary.records[TopicPartition(EXEMPT_TOPIC, 0)].values())[-1]
            self.append(self.change.standby, self.prefix + EXEMPT_TOPIC, 0, value.encode())

    def refusal(self) -> str:
        """Return that nothing was refused."""
        return ""

    def delete(self) -> None:
        """Delete the connector."""
        self.stands = False


class Change:
    """A flow from primary to standby that mirrors two topics, and runs of change_replication."""

    def __init__(self, bench: Any, naming: str = "identity") -> None:
        self.bench, self.worker = bench, bench.workers["standby"]
        self.primary, self.standby = bench.clusters["primary"], bench.clusters["standby"]
        topology = json.loads(bench.topology.read_text())
        topology["naming"]["policy"] = naming
        bench.topology.write_text(json.dumps(topology))
        self.primary.partitions = {name: dict(leaders) for name, leaders in TOPICS.items()}
        self.standby.partitions = {"orders": {0: 1}, "extra.b": {0: 1}}
        self.primary.log_ends, self.standby.log_ends = {}, {}
        self.worker.configs = {
            SOURCE: {"topics": ".*", "topics.exclude": "__.*,connect-.*", "tasks.max": "1"},
            CHECKPOINT: {"groups": ".*"},
        }
        self.worker.assigned = {SOURCE: {0: [A, B]}}
        self.worker.replicated = {}
        self.bench.reader = lambda alias, isolation="": reader_of(bench.clusters[alias])
        self.write(A, 10)
        self.write(B, 10)
        self.copy(A, 0, 10)
        self.copy(B, 0, 10)
        self.worker.replicated = {A: 9, B: 9}
        self.copies_after_resume = True
        self.resume = self.worker.resume
        self.worker.resume = self.resumed
        self.runs = 0
        bench.dag_id = "change_replication"

    def write(self, tp: TopicPartition, count: int, value: str = "") -> None:
        """Clients write records."""
        begin = self.primary.log_ends.get(tp, 0)
        self.primary.records.setdefault(tp, {}).update({n: value or f"{tp}/{n}" for n in range(begin, begin + count)})
        self.primary.log_ends[tp] = begin + count

    def copy(self, tp: TopicPartition, begin: int, end: int) -> None:
        """The flow copies source records."""
        there = self.standby.log_ends.get(tp, 0)
        held = [value for offset, value in sorted(self.primary.records[tp].items()) if begin <= offset < end]
        self.standby.records.setdefault(tp, {}).update(dict(enumerate(held, there)))
        self.standby.log_ends[tp] = there + len(held)

    def resumed(self, name: str, deadline: float, needs_tasks: bool = True) -> None:
        """Resume; the source connector then copies what is behind Connect's offsets."""
        ran = self.worker.states[name] == "RUNNING"
        self.resume(name, deadline, needs_tasks)
        if ran or name != SOURCE or not self.copies_after_resume:
            return
        stored = self.worker.kept.get(SOURCE, self.worker.replicated)
        excluded = self.worker.configs[SOURCE]["topics.exclude"]
        for tp in (A, B):
            if tp.topic not in excluded:
                last = stored.get(tp)
                self.copy(tp, 0 if last is None else last + 1, self.primary.log_ends[tp])

    def opened(self, **choices: Any) -> Run:
        """Return a run that holds the lease."""
        self.runs += 1
        self.bench.params = {"source": "primary", "target": "standby", "reason": "a change", **choices}
        self.procedure: Run = self.bench.opened(f"c{self.runs}")
        return self.procedure

    def act(self, kind: Any, step: Step) -> Any:
        """Do one step, and write its outcome."""
        self.procedure.authority.write(step, Entry.INTENT, {"try": 1})
        outcome = kind(task_id=step.value).act(self.procedure, self.bench.context(self.procedure.identity.run_id))
        self.bench.done(self.procedure, step, **outcome.payload())
        return outcome

    def stopped(self, **choices: Any) -> None:
        """Plan, approve and stop."""
        self.plan(**choices)
        self.approve()
        self.stop()

    def plan(self, **choices: Any) -> dict[str, Any]:
        """Open a run, and write its plan."""
        self.opened(**choices)
        return self.procedure.progress.with_plan(self.act(PlanChange, Step.PLAN_CHANGE)).plan

    def approve(self) -> str:
        """Bob approves; return the body of the question."""
        subject, body, _ = asked_by(ApproveChange(task_id=Step.APPROVE_CHANGE.value), self.procedure)
        self.bench.api.answer(Step.APPROVE_CHANGE, subject)
        self.bench.done(self.procedure, Step.APPROVE_CHANGE, asked=True)
        return body

    def stop(self) -> Any:
        """Stop the flow."""
        return self.act(StopChangedFlow, Step.STOP_CHANGED_FLOW)

    def change(self) -> Any:
        """Change settings and offsets."""
        return self.act(ChangeConnectors, Step.CHANGE_CONNECTORS)

    def resume_flow(self) -> Any:
        """Resume the flow."""
        return self.act(ResumeChangedFlow, Step.RESUME_CHANGED_FLOW)

    def whole(self, **choices: Any) -> Any:
        """All steps; return the outcome of the last."""
        self.plan(**choices)
        self.approve()
        self.stop()
        self.change()
        return self.resume_flow()

    def give_back(self) -> Any:
        """Do return_to_source."""
        return self.act(ReturnToSource, Step.RETURN_TO_SOURCE)

    def return_meanwhile(self) -> Any:
        """Do return_to_source in a newer process, while a step of this run still acts; return its outcome."""
        run_id = self.procedure.identity.run_id
        newer = self.bench.procedure(run_id)
        newer.lease.take_new_epoch()
        newer.authority.write(Step.RETURN_TO_SOURCE, Entry.INTENT, {"try": 1})
        outcome = ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).act(newer, self.bench.context(run_id))
        self.bench.done(newer, Step.RETURN_TO_SOURCE, **outcome.payload())
        return outcome

    def evidence(self) -> dict[str, Any]:
        """Close the run; return the evidence."""
        context = self.bench.context(self.procedure.identity.run_id)
        with contextlib.suppress(AirflowFailException):
            CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(context)
        return json.loads((self.procedure.artifacts.folder / "evidence.json").read_text())

    @property
    def offsets(self) -> dict[TopicPartition, int | None]:
        """The offsets that Connect stores."""
        return self.worker.kept.get(SOURCE, self.worker.replicated)
