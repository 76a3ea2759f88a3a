"""A bench for steps: the real journal, topology, procedure and operators; what stands in is outside of the
hooks' border.
"""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from kafka_dr.domain.acl import AclEntry
from kafka_dr.domain.loss_plan import LastKnownGroup, LossPlan
from kafka_dr.domain.plan import ExcludedGroup, Plan
from kafka_dr.domain.topic_partition import TopicPartition
from kafka_dr.errors import ConnectUnavailable, DeadlinePassed, HookUnavailable, KafkaUnavailable
from kafka_dr.hooks.airflow_api import DagRun, HitlAnswer, TaskInstance
from kafka_dr.hooks.fence_hook import FenceAnswer
from kafka_dr.hooks.group_requests import Position, PositionColumns
from kafka_dr.hooks.kafka_cluster import Metadata
from kafka_dr.hooks.kafka_records import Accepted, Record, Refused, Tail, key_and_value
from kafka_dr.hooks.procedure_journal import Journal, JournalEntry
from kafka_dr.operators import procedure_step
from kafka_dr.operators.fencing import commits_end, positions_frame
from kafka_dr.operators.offsets import local_partitions
from kafka_dr.operators.positions import partitions_frame
from kafka_dr.procedure import systems as systems_module
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import APPROVE, Entry, Step

PAIR = "primary+standby"


class Own(dict[str, str]):
    """Settings of a topic, all of them its own."""

    @property
    def overrides(self) -> frozenset[str]:
        """What was set on this very topic."""
        return frozenset(self)


class Cluster:
    """One cluster as far as a step sees it."""

    def __init__(self, alias: str) -> None:
        self.alias, self.admin = alias, alias
        self.acls: set[AclEntry] = set()
        self.authorizer, self.takes_acls = True, True
        self.log_ends: dict[TopicPartition, int] = {TopicPartition("orders", 0): 10}
        self.log_starts: dict[TopicPartition, int] = {}
        self.topic_ids: dict[str, str] = {}
        self.internal: dict[str, list[tuple[bytes, bytes]]] = {}
        self.partitions: dict[str, dict[int, int]] = {"orders": {0: 1}, "__switchback_probe": {0: 1}}
        self.broker_ids = [1]
        self.members: dict[str, int] = {}
        self.committed: dict[str, dict[TopicPartition, Position]] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self.deleted: list[str] = []
        self.replicas: dict[str, int] = {}
        self.keys: dict[TopicPartition, bytes] = {}
        self.records: dict[TopicPartition, dict[int, str]] = {}
        self.markers: dict[TopicPartition, int] = {}
        self.positions_read = 0
        self.away: KafkaUnavailable | bool = False
        self.answers_after = 0.0
        self.complained: frozenset[str] = frozenset()

    def answer(self) -> None:
        """Fail where the cluster is away."""
        if self.away:
            raise (
                self.away
                if isinstance(self.away, KafkaUnavailable)
                else KafkaUnavailable(f"asking {self.alias} failed", "no answer in time", "look at its brokers")
            )

    def brokers(self, **_: Any) -> list[Any]:
        """Brokers by id."""
        self.answer()
        return [SimpleNamespace(id=b) for b in self.broker_ids]

    def metadata(self, timeout: float = 30.0) -> Metadata:
        """Brokers and leaders, as the first broker knows them, after as long as the test said."""
        if self.away:
            time.sleep(timeout)
            self.answer()
        time.sleep(self.answers_after)
        return Metadata(tuple(self.broker_ids), {name: dict(leaders) for name, leaders in self.partitions.items()})

    def complaints(self) -> frozenset[str]:
        """What the client said about its connections."""
        return self.complained

    def topics(self, names: Iterable[str] | None = None, **_: Any) -> dict[str, Any]:
        """Topics with the leader of each partition."""
        self.answer()
        wanted = self.partitions if names is None else [n for n in names if n in self.partitions]
        copies = {n: {p: (1,) * self.replicas.get(n, 1) for p in self.partitions[n]} for n in wanted}
        return {
            n: SimpleNamespace(
                partitions=self.partitions[n], topic_id=self.topic_ids.get(n, f"id-{n}"), replicas=copies[n]
            )
            for n in wanted
        }

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        **_: Any,
    ) -> None:
        """Make a topic where it is missing; one that was deleted gets another id."""
        self.answer()
        if name not in self.partitions:
            self.partitions[name] = dict.fromkeys(range(partitions), 1)
            self.replicas[name] = max(1, replication_factor)
            self.settings |= {name: dict(configs)} if configs else {}
            self.topic_ids |= {name: f"id-{name}-{self.deleted.count(name)}"} if name in self.deleted else {}

    def create_partitions(self, topic: str, total: int) -> None:
        """Raise a topic's partitions."""
        self.partitions[topic] |= dict.fromkeys(range(len(self.partitions[topic]), total), 1)

    def delete_topics(self, names: Iterable[str], timeout: float = 30.0) -> list[str]:
        """Delete topics with all their records."""
        self.answer()
        gone = [name for name in names if self.partitions.pop(name, None)]
        self.deleted += gone
        for held in (self.log_ends, self.records):
            for tp in [tp for tp in held if tp.topic in gone]:
                del held[tp]
        return gone

    def ends(
        self, partitions: Iterable[TopicPartition], isolation: str = "read_uncommitted", **_: Any
    ) -> dict[TopicPartition, int]:
        """Log ends."""
        self.answer()
        return {tp: self.log_ends.get(tp, 0) for tp in partitions}

    def starts(self, partitions: Iterable[TopicPartition], **_: Any) -> dict[TopicPartition, int]:
        """Log starts."""
        self.answer()
        return {tp: self.log_starts.get(tp, 0) for tp in partitions}

    def groups(self) -> dict[str, Any]:
        """Groups with as many members as the test said, and those that only hold positions."""
        self.answer()
        known = dict.fromkeys(self.committed, 0) | self.members
        return {
            g: SimpleNamespace(
                name=g,
                state="Stable" if n else "Empty",
                type="classic",
                empty=not n,
                members=[SimpleNamespace(client_id="c", host="h")] * n,
            )
            for g, n in known.items()
        }

    def positions(self, groups: Iterable[str], **_: Any) -> dict[str, dict[TopicPartition, Position]]:
        """Committed positions."""
        self.answer()
        return {g: dict(self.committed[g]) for g in groups if g in self.committed}

    def position_columns(self, groups: Iterable[str], **_: Any) -> PositionColumns:
        """Committed positions as columns."""
        self.answer()
        self.positions_read += 1
        rows = [(g, *tp, p.offset) for g in groups for tp, p in self.committed.get(g, {}).items()]
        return (
            PositionColumns(*(list(column) for column in zip(*rows, strict=True)))
            if rows
            else PositionColumns([], [], [], [])
        )

    def commit_many(
        self, positions: Iterable[tuple[str, Mapping[TopicPartition, int]]]
    ) -> dict[str, dict[TopicPartition, str]]:
        """Commit, and answer OK."""
        self.answer()
        done = {}
        for group, offsets in positions:
            self.committed.setdefault(group, {}).update({tp: Position(o) for tp, o in offsets.items()})
            done[group] = dict.fromkeys(offsets, "ok")
        return done

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Settings of the topics that are there."""
        self.answer()
        return {t: Own(self.settings.get(t, {})) for t in topics if t in self.partitions or t in self.settings}


class Acls:
    """The ACL entries of one cluster; a cluster may swallow what is added."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def authorizer_enabled(self) -> bool:
        """Whether rights are checked."""
        self.cluster.answer()
        return self.cluster.authorizer

    def entries(self) -> frozenset[AclEntry]:
        """All entries."""
        self.cluster.answer()
        return frozenset(self.cluster.acls)

    def add(self, entries: Iterable[AclEntry]) -> None:
        """Add, unless the cluster swallows it."""
        self.cluster.acls |= set(entries) if self.cluster.takes_acls else set()

    def remove(self, entries: Iterable[AclEntry]) -> None:
        """Remove exactly these."""
        self.cluster.acls -= set(entries)

    def missing(self, entries: Iterable[AclEntry]) -> list[AclEntry]:
        """Those of the entries that are not there."""
        return sorted(set(entries) - self.entries())


class Worker:
    """A Connect worker: connectors by name, with their state."""

    def __init__(self, states: dict[str, str]) -> None:
        self.states = states
        self.asked: list[tuple[str, str]] = []
        self.needs_tasks: dict[str, bool] = {}
        self.offsets_set: dict[str, Any] = {}
        self.settings: dict[str, str] = {}
        self.version = "4.3.1"
        self.replicated: dict[TopicPartition, int | None] = {TopicPartition("orders", 0): 9}
        self.kept: dict[str, dict[TopicPartition, int | None]] = {}
        self.misspelt: frozenset[str] = frozenset()
        self.late: set[str] = set()
        self.away = False

    def answer(self) -> None:
        """Fail where the worker is away."""
        if self.away:
            raise ConnectUnavailable("Connect did not do GET /connectors", "no connection", "look at Connect")

    def worker(self, timeout: float = 30.0) -> Any:
        """Its version; it stands beside the standby."""
        self.answer()
        return SimpleNamespace(version=self.version, kafka_cluster_id="id-standby")

    def connectors(self, **_: Any) -> list[str]:
        """Names."""
        self.answer()
        return list(self.states)

    def config(self, name: str, **_: Any) -> dict[str, str]:
        """A connector's settings; none unless the test said some."""
        self.answer()
        return self.settings

    def offsets(self, name: str, timeout: float = 60.0) -> Any:
        """Ten records were replicated, unless the test said otherwise, or offsets were changed."""
        self.answer()
        return SimpleNamespace(of=lambda alias: self.kept.get(name, self.replicated), aliases=self.misspelt)

    def status(self, name: str, timeout: float = 30.0) -> Any:
        """State and tasks."""
        self.answer()
        self.answer()
        state = self.states[name]
        return SimpleNamespace(
            name=name,
            state=state,
            tasks={0: "RUNNING"} if state == "RUNNING" else {},
            traces={},
            stopped=state == "STOPPED",
            running=state == "RUNNING",
        )

    def ask_to_stop(self, name: str, timeout: float) -> None:
        """Stop, and remember who was asked; what is late still has to stop when this returns."""
        self.answer()
        self.asked.append(("stop", name))
        if name not in self.late:
            self.states[name] = "STOPPED"

    def stop(self, name: str, deadline: float) -> None:
        """Stop, and remember who was asked; what is late does not stop in time."""
        self.asked.append(("stop", name))
        if name in self.late:
            raise DeadlinePassed(
                f"{name} did not stop within {deadline:g} s", "its tasks still run", "look at the worker's log"
            )
        self.states[name] = "STOPPED"

    def resume(self, name: str, deadline: float, needs_tasks: bool = True) -> None:
        """Resume, and remember who was asked."""
        self.asked.append(("resume", name))
        self.needs_tasks[name] = needs_tasks
        self.states[name] = "RUNNING"

    def change_offsets(self, name: str, alias: str, seeds: Mapping[TopicPartition, int | None]) -> Any:
        """Remember the seeds, and keep them; a connector that runs takes none."""
        assert self.states[name] == "STOPPED", f"{name} is {self.states[name]}"
        self.offsets_set[name] = dict(seeds)
        self.kept[name] = {**self.kept.get(name, self.replicated), **seeds}
        return self.offsets(name)


class Hook:
    """A fence hook and a stop hook in one: remembers what it was asked, and does it unless it is told not to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.fences, self.fenced, self.away = True, False, False
        self.processes = {"primary->standby": 1}

    def _asked(self, *what: str) -> FenceAnswer:
        self.asked.append(what)
        if self.away:
            raise HookUnavailable("the hook did not do it", "no connection", "look at it")
        return FenceAnswer(self.fenced, "the switch", "port 7")

    def fence(self, procedure_id: str, cluster: str) -> FenceAnswer:
        """Fence, if it does."""
        self.fenced = self.fences
        return self._asked("fence", procedure_id, cluster)

    def unfence(self, procedure_id: str, cluster: str) -> FenceAnswer:
        """Let clients in."""
        self.fenced = False
        return self._asked("unfence", procedure_id, cluster)

    def state(self, cluster: str) -> FenceAnswer:
        """Whether it fences."""
        return self._asked("state", cluster)

    def running(self, flow: str, timeout: float) -> int:
        """Processes of a flow."""
        self._asked("running", flow)
        return self.processes.get(flow, 0)

    def stop(self, flow: str) -> int:
        """End them."""
        self._asked("stop", flow)
        return self.processes.update({flow: 0}) or 0


class Api:
    """Airflow's own API: who started the run, and the gates' answers."""

    def __init__(self) -> None:
        self.starter: str | None = "alice"
        self.answers: dict[str, HitlAnswer] = {}
        self.tried: dict[str, list[TaskInstance]] = {}

    def dag_run(self, dag_id: str, run_id: str) -> DagRun:
        """The run."""
        return DagRun(dag_id, run_id, "running", self.starter)

    def tries(self, dag_id: str, run_id: str, task_id: str) -> list[TaskInstance]:
        """Earlier tries of a task."""
        return self.tried.get(task_id, [])

    def hitl(self, dag_id: str, run_id: str, task_id: str) -> HitlAnswer | None:
        """The gate."""
        return self.answers.get(task_id)

    def answer(self, gate: str, subject: str, **changes: Any) -> None:
        """Someone answers a gate; by default bob approves now."""
        given = {
            "chosen_options": (APPROVE,),
            "responded_by_id": "bob",
            "responded_by_name": "bob",
            "responded_at": datetime.now(UTC),
            **changes,
        }
        self.answers[gate] = HitlAnswer(
            subject=subject, body="", options=(APPROVE, "Reject"), params_input={}, created_at=None, **given
        )


class Connections:
    """Connections without Airflow's database."""

    def __init__(self, journal_url: str) -> None:
        self._journal_url = journal_url

    def check_spark(self, connection_id: str) -> None:
        """Spark runs here."""

    def kafka(self, connection_id: str) -> dict[str, str]:
        """A cluster's configuration that names the connection."""
        return {"bootstrap.servers": connection_id}

    def login(self, connection_id: str) -> tuple[str, str, str]:
        """A system's address."""
        return f"http://{connection_id}", "user", "password"

    def archive_options(self, connection_id: str) -> dict[str, Any]:
        """None."""
        return {}

    def journal_url(self, connection_id: str) -> str:
        """The journal's file."""
        return self._journal_url


class Bench:
    """Two clusters, a worker a flow, Airflow's API, a journal on disk, and runs of procedures on them."""

    def __init__(self, folder: Path, dag_id: str = "planned_failover", **topology: Any) -> None:
        self.dag_id = dag_id
        self.folder, self.url = folder, f"sqlite:///{folder}/journal.db"
        self.clusters = {alias: Cluster(alias) for alias in ("primary", "standby")}
        self.workers = {
            "standby": Worker({"p.source": "RUNNING", "p.checkpoint": "RUNNING"}),
            "primary": Worker({"s.source": "STOPPED", "s.checkpoint": "STOPPED"}),
        }
        self.api, self.connections, self.hook = Api(), Connections(self.url), Hook()
        self.probe_answers: dict[int, Any] = {}
        self.probed: list[int] = []
        self.params: dict[str, Any] = {"source": "primary", "target": "standby", "reason": "maintenance"}
        self.topology = folder / "topology.yaml"
        self.topology.write_text(json.dumps(self._topology() | topology))

    def _topology(self) -> dict[str, Any]:
        principals = {"mirror_maker": ["User:mm2"], "orchestrator": ["User:orchestrator"], "exempt": ["User:admin"]}
        flows = [
            {
                "source": s,
                "target": t,
                "connect": f"connect_{t}",
                "connectors": {k: f"{s[0]}.{k}" for k in ("source", "checkpoint")},
            }
            for s, t in (("primary", "standby"), ("standby", "primary"))
        ]
        return {
            "clusters": {
                a: {"connection": f"kafka_{a}", "probe_connection": f"probe_{a}", "principals": principals}
                for a in self.clusters
            },
            "naming": {"policy": "identity"},
            "flows": flows,
            "routing": {"kind": "file", "path": str(self.folder / "routing.json")},
            "journal": {"connection": "journal"},
            "airflow_api": {"connection": "api"},
            "spark": {"connection": "spark"},
            "evidence": str(self.folder / "evidence"),
            "cool_down_seconds": 0,
            "deadlines": {"stable_seconds": 0.01, "fence_seconds": 0.3, "verify_seconds": 0.3, "zero_lag_seconds": 0.3},
        }

    def context(self, run_id: str = "r1", attempt: int = 1) -> dict[str, Any]:
        """What Airflow gives a task on one of its tries."""
        run = SimpleNamespace(dag_id=self.dag_id, run_id=run_id, start_date=datetime.now(UTC), queued_at=None)
        return {
            "dag_run": run,
            "params": self.params,
            "task_instance": (ti := SimpleNamespace(id=f"ti-{run_id}", try_number=attempt)),
            "ti": ti,
        }

    def procedure(self, run_id: str = "r1") -> Run:
        """A run, made as steps make it."""
        return procedure_step.procedure_of(self.context(run_id))

    @property
    def journal(self) -> Journal:
        """The journal on disk."""
        return Journal(self.url)

    def no_watcher(self, minutes: float = 2) -> None:
        """The watcher of old sources showed life for the last time so many minutes ago."""
        Journal(self.url, clock=lambda: datetime.now(UTC) - timedelta(minutes=minutes)).show_life(Step.WATCH_OLD_SOURCE)

    def kinds(self, step: str, run_id: str = "r1") -> list[str]:
        """Kinds of a step's entries, in order."""
        return [e.kind for e in self.entries(step, run_id)]

    def entries(self, step: str, run_id: str = "r1") -> list[JournalEntry]:
        """A step's entries."""
        return self.journal.entries(f"{self.dag_id}-{run_id}", step)

    def opened(self, run_id: str = "r1") -> Run:
        """A run that holds the lease; the watcher of old sources is alive."""
        self.journal.show_life(Step.WATCH_OLD_SOURCE)
        procedure = self.procedure(run_id)
        epoch = self.journal.take_lease(PAIR, procedure.id)
        told = {
            "dag_id": self.dag_id,
            "run_id": run_id,
            "source": procedure.request.source,
            "target": procedure.request.target,
            "triggered_at": datetime.now(UTC).isoformat(),
        } | {"request": procedure.request.model_dump(mode="json")}
        self.journal.append(procedure.id, Step.OPEN_PROCEDURE, Entry.OPENED, epoch, told)
        self.journal.append(procedure.id, Step.OPEN_PROCEDURE, Entry.OUTCOME, epoch, {"epoch": epoch, "pair": PAIR})
        return procedure

    def done(self, procedure: Run, step: str, **figures: Any) -> None:
        """A step that began and ended."""
        procedure.authority.write(step, Entry.INTENT, {"try": 1})
        procedure.authority.write(step, Entry.OUTCOME, figures)

    def planned(
        self, run_id: str = "r1", remote: str = "orders", groups: tuple[str, ...] = (), excluded: Mapping[str, str] = {}
    ) -> Run:
        """A run that is open, ready, forecast and approved by bob."""
        procedure = self.opened(run_id)
        self.done(
            procedure,
            Step.CHECK_READINESS,
            isolation="read_uncommitted",
            topic_ids={},
            notes=[],
            records_per_second=0.0,
        )
        listed = tuple(
            {
                "group": g,
                "partitions": 1,
                "lag": 0,
                "policy": "earliest",
                "active": False,
                "mirror_maker_rereads": None,
                "expected": {},
            }
            for g in groups
        )
        plan = Plan(
            procedure.id,
            "planned_failover",
            "primary",
            "standby",
            "maintenance",
            "identity",
            {},
            (("orders", remote, 1, "id-orders"),),
            {"orders": "orders"},
            listed,
            (str(FENCE),),
            (str(TARGET_FENCE),),
            {"max_fence_seconds": 600.0},
            False,
            0,
            None,
            excluded=tuple(ExcludedGroup(g, "will not empty", policy, 1, 0, True) for g, policy in excluded.items()),
        )
        self.done(
            procedure,
            Step.FORECAST,
            plan=plan.as_dict(),
            plan_digest=plan.digest,
            active_groups=list(groups),
            end_sum=0,
        )
        self.api.answer(Step.APPROVE_FAILOVER, f"Move? Plan {plan.digest}")
        self.done(procedure, Step.APPROVE_FAILOVER, asked=True)
        return procedure

    def lost(self, run_id: str = "r1", known_end: int = 10) -> Run:
        """An unplanned run whose inventory is approved by bob; its source does not answer, and its logs were known
        up to an end.
        """
        procedure = self.opened(run_id)
        ends = procedure.artifacts.save("source_ends", partitions_frame({ORDERS: known_end}, "offset"))
        self.done(procedure, Step.CONFIRM_SOURCE_LOST, state="lost", override=None)
        self.done(procedure, Step.ASSESS_DATA_LOSS, plan_digest="i" * 64, source_ends=ends)
        self.api.answer(Step.APPROVE_DATA_LOSS, f"Lose this? Inventory {'i' * 64}")
        self.clusters["primary"].away = True
        self.clusters["primary"].acls |= {GRANT}
        return procedure

    def given_up(
        self,
        remote: str = "orders",
        groups: tuple[str, ...] = (),
        active: tuple[str, ...] = (),
        loss: tuple[dict[str, Any], ...] = (),
    ) -> Run:
        """An unplanned run whose whole plan is approved by bob, and whose lost source is armed; when the loss was
        assessed the target ended at 10.
        """
        procedure = self.opened()
        known = tuple(LastKnownGroup(g, 1, "earliest", g in active, None, 0) for g in groups)
        plan = LossPlan(
            procedure.id,
            self.dag_id,
            "primary",
            "standby",
            "maintenance",
            "identity",
            {},
            (("orders", remote, 1, "id-orders"),),
            {"orders": "orders"},
            known,
            (str(TARGET_FENCE),),
            {},
            {"state": "lost", "window": "w", "override": None},
            {
                "digest": "d",
                "certain": 0,
                "possible": None,
                "losing": len(loss),
                "partitions": 1,
                "unknown": 0,
                "records_per_second": None,
                "groups_ahead": 0,
            },
            loss,
        )
        ends = procedure.artifacts.save("source_ends", partitions_frame({ORDERS: 10}, "offset"))
        bounds = procedure.artifacts.save(
            "bounds",
            pd.DataFrame(
                {
                    "topic": ["orders"],
                    "partition": [0],
                    "target_topic": [remote],
                    "boundary": pd.array([10], "Int64"),
                    "recreated": [False],
                }
            ),
        )
        self.done(procedure, Step.CONFIRM_SOURCE_LOST, state="lost", override=None)
        self.done(
            procedure,
            Step.ASSESS_DATA_LOSS,
            plan=plan.as_dict(),
            plan_digest=plan.digest,
            active_groups=list(active),
            source_ends=ends,
            bounds=bounds,
        )
        self.api.answer(Step.APPROVE_DATA_LOSS, f"Lose this? Plan {plan.digest}")
        self.done(procedure, Step.APPROVE_DATA_LOSS, asked=True)
        self.done(procedure, Step.FENCE_SOURCE, fenced="armed")
        self.clusters["primary"].away = True
        target = self.clusters["standby"]
        target.partitions.setdefault(remote, {0: 1})
        target.log_ends.setdefault(TopicPartition(remote, 0), 10)
        target.acls |= {GRANT, TARGET_FENCE}
        return procedure

    def stopped_without_source(self, procedure: Run, remote: str = "orders") -> None:
        """Everything from the stop to the commit, without a position."""
        target, at = self.clusters["standby"], TopicPartition(remote, 0)
        self.workers["standby"].states.update(dict.fromkeys(("p.source", "p.checkpoint"), "STOPPED"))
        replicated = procedure.artifacts.save("replicated", partitions_frame({}, "offset"))
        self.done(
            procedure,
            Step.STOP_MIRROR_MAKER,
            boundary=procedure.artifacts.save("boundary", partitions_frame({at: target.log_ends[at]}, "offset")),
            replicated=replicated,
        )
        self.done(procedure, Step.TRANSLATE_OFFSETS, digest="t" * 64, exact=0, positions=0, holes=[], cut=[])
        self.done(procedure, Step.REVIEW_TRANSLATION, asked=False)
        self.done(
            procedure,
            Step.COMMIT_GROUPS,
            local_ends=procedure.artifacts.save(
                "local_ends", partitions_frame(target.ends(local_partitions(procedure)), "offset")
            ),
        )

    def stopped(self, run_id: str = "r1", remote: str = "orders", excluded: Mapping[str, str] = {}) -> Run:
        """A run that has fenced, drained, stopped, reviewed, committed and seeded: open_target is next."""
        procedure = self.planned(run_id, remote, excluded=excluded)
        self.stopped_after_drain(procedure, [], remote)
        return procedure

    def stopped_after_drain(self, procedure: Run, groups: list[str], remote: str = "orders") -> None:
        """Everything from the fence to the seed, with these groups frozen."""
        source, target = self.clusters["primary"], self.clusters["standby"]
        procedure.authority.write(Step.FENCE_PRODUCERS, Entry.INTENT, {"adds_acl_entries": [vars(FENCE)]})
        source.acls |= {GRANT, FENCE}
        cut_off = procedure.artifacts.save("cut_off", partitions_frame({ORDERS: source.log_ends[ORDERS]}, "offset"))
        procedure.authority.write(
            Step.FENCE_PRODUCERS, Entry.OUTCOME, {"cut_off": cut_off, "fenced_at": procedure.now()}
        )
        positions = procedure.artifacts.save("source_positions", positions_frame(procedure, groups))
        self.done(
            procedure,
            Step.DRAIN_CONSUMERS,
            groups=groups,
            groups_since_forecast=[],
            positions=positions,
            commits_end=commits_end(procedure),
        )
        self.done(procedure, Step.WAIT_FOR_ZERO_LAG)
        self.workers["standby"].states.update(dict.fromkeys(("p.source", "p.checkpoint"), "STOPPED"))
        at = TopicPartition(remote, 0)
        target.partitions.setdefault(remote, {0: 1})
        target.log_ends.setdefault(at, 10)
        self.done(
            procedure,
            Step.STOP_MIRROR_MAKER,
            boundary=procedure.artifacts.save("boundary", partitions_frame({at: target.log_ends[at]}, "offset")),
        )
        self.done(procedure, Step.TRANSLATE_OFFSETS, digest="t" * 64, exact=0, positions=0, holes=[], cut=[])
        self.done(procedure, Step.REVIEW_TRANSLATION, asked=False)
        self.done(
            procedure,
            Step.COMMIT_GROUPS,
            local_ends=procedure.artifacts.save(
                "local_ends", partitions_frame(target.ends(local_partitions(procedure)), "offset")
            ),
        )
        self.done(procedure, Step.SEED_REVERSE_REPLICATION)
        target.acls |= {GRANT, TARGET_FENCE}

    def reader(self, config: Mapping[str, str], alias: str, isolation: str = "read_uncommitted") -> Any:
        """Reads back what was written through `writer`, and the records that a test put in."""
        cluster = self.clusters[alias]

        def ranges(
            spans: Mapping[TopicPartition, tuple[int, int]], limit: int | None = None
        ) -> dict[TopicPartition, list[Any]]:
            within = {
                tp: [
                    content for offset, content in sorted(cluster.records.get(tp, {}).items()) if start <= offset < end
                ]
                for tp, (start, end) in spans.items()
            }
            return {
                tp: [SimpleNamespace(fingerprint=lambda c=content: c) for content in found[:limit]]
                for tp, found in within.items()
            }

        def last_records(partitions: Iterable[TopicPartition], n: int = 1, **_: Any) -> dict[TopicPartition, Tail]:
            ends = {
                tp: (end, end - 1 - cluster.markers.get(tp, 0))
                for tp in partitions
                for end in (cluster.log_ends.get(tp, 0),)
            }
            return {
                tp: Tail((Record(*tp, last, None, False, None, b"v", ()),) if end else (), 0, end)
                for tp, (end, last) in ends.items()
            }

        def read_all(topic: str, take: Any = None, begin: Mapping[TopicPartition, int] | None = None) -> Iterator[Any]:
            first = (begin or {}).get(TopicPartition(topic, 0), 0)
            records = list(enumerate(cluster.internal.get(topic, [])))[first:]
            return (
                (key, value) if take is key_and_value else Record(topic, 0, offset, None, False, key, value, ())
                for offset, (key, value) in records
            )

        return SimpleNamespace(
            range=lambda tp, start, end: [SimpleNamespace(key=cluster.keys.get(tp))],
            ranges=ranges,
            last_records=last_records,
            read_all=read_all,
        )

    def writer(self, config: Mapping[str, str], alias: str) -> Any:
        """A writer for probes and the canary; a probe is refused where the fence's entry is there."""

        def write(topic: str, partition: int, value: bytes, key: bytes) -> Accepted:
            self.clusters[alias].keys[TopicPartition(topic, partition)] = key
            return Accepted(0, 1)

        def probe(topic: str, partition: int, timeout: float = 10.0) -> Any:
            self.probed.append(partition)
            return self.probe_answers.get(partition, Refused("TOPIC_AUTHORIZATION_FAILED", True, 1))

        return SimpleNamespace(write=write, probe=probe)


ORDERS = TopicPartition("orders", 0)
GRANT = AclEntry("topic", "*", "literal", "User:app", "*", "write", "allow")
FENCE = AclEntry("topic", "*", "literal", "User:app", "*", "write", "deny")
TARGET_FENCE = AclEntry("topic", "*", "literal", "User:*", "*", "write", "deny")


MEMORY = Path("/dev/shm")


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is room: the journal waits for the disk at every write, and these tests write
    thousands of times.
    """
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < 2**28:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="switchback-") as folder:
        yield Path(folder)


@pytest.fixture(params=["silent", "full"])
def hanging(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address at which nothing ever answers: one that takes connections and is silent, one whose queue is full,
    so that connecting hangs.
    """
    server, waiting = socket.socket(), []
    server.bind(("127.0.0.1", 0))
    server.listen(64 if request.param == "silent" else 0)
    for _ in range(0 if request.param == "silent" else 4):
        waiting.append(socket.socket())
        waiting[-1].setblocking(False)
        waiting[-1].connect_ex(server.getsockname())
    yield f"127.0.0.1:{server.getsockname()[1]}"
    for one in (*waiting, server):
        one.close()


@pytest.fixture
def make_bench(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bench]:
    """Makes a bench with another topology."""

    def make(**topology: Any) -> Bench:
        bench = Bench(quick_path, **topology)
        monkeypatch.setenv("KAFKA_DR_TOPOLOGY", str(bench.topology))
        monkeypatch.setattr(procedure_step, "Connections", lambda: bench.connections)
        monkeypatch.setattr(systems_module, "KafkaCluster", lambda alias, config: bench.clusters[alias])
        monkeypatch.setattr(systems_module, "ClusterAcls", lambda admin, alias: Acls(bench.clusters[alias]))
        monkeypatch.setattr(
            systems_module,
            "MirrorMaker",
            lambda url, auth=None, request_seconds=10.0: bench.workers[url.removeprefix("http://connect_")],
        )
        monkeypatch.setattr(systems_module, "AirflowApi", lambda *_: bench.api)
        monkeypatch.setattr(systems_module, "FenceHook", lambda *_, **__: bench.hook)
        monkeypatch.setattr(systems_module, "StopHook", lambda *_, **__: bench.hook)
        monkeypatch.setattr(systems_module, "RecordReader", bench.reader)
        monkeypatch.setattr(systems_module, "RecordWriter", bench.writer)
        return bench

    return make


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Two clusters with identity naming."""
    return make_bench()
