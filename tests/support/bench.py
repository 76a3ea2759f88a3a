"""A bench for steps: the real journal, topology, run and steps; what stands in is outside the hooks' border."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
from kafka_dr.actions.groups.at_rest import commits_end, positions_frame
from kafka_dr.actions.offsets.client_topics import local_partitions
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.config.params import Request
from kafka_dr.config.topology import Topology
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules, Authorizer
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.loss.loss_plan import LastKnownGroup, LossPlan
from kafka_dr.domain.readiness.plan import ExcludedGroup, FailoverPlan
from kafka_dr.hooks.brokers.record import OffsetSpan, Record, Tail
from kafka_dr.hooks.brokers.record_writer import WriteAccepted, WriteRefused
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.tables import JournalEntry
from kafka_dr.hooks.spark_place import SparkPlace
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import AclEntriesToAdd, ConnectorsToStop
from kafka_dr.procedure.find import procedure_of, request_of
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.stored_files import StoredFiles
from kafka_dr.procedure.systems import store_of
from kafka_dr.vocabulary import PROBE_TOPIC, Entry, Step

from tests.support.airflow import Api
from tests.support.clusters import Acls, Cluster, Message
from tests.support.connect import Hook, Worker
from tests.support.facts import open_run, tell
from tests.support.fake_systems import FakeSystems

PAIR = "primary+standby"


class Connections:
    """Connections without Airflow's database."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def systems(self, request: Request, topology: Topology) -> FakeSystems:
        """Return the bench's stand-ins for all systems."""
        return FakeSystems(self._bench, request, topology, self)

    def check_spark(self, connection_id: str) -> None:
        """Do nothing, because Spark runs in this process."""

    def spark_place(self, connection_id: str) -> SparkPlace:
        """Return that Spark runs in the task."""
        return SparkPlace("task")

    def kafka(self, connection_id: str) -> dict[str, str]:
        """Return a cluster's configuration, which names the connection."""
        return {"bootstrap.servers": self._bench.addresses.get(connection_id, connection_id)}

    def login(self, connection_id: str) -> tuple[str, str, str]:
        """Return a system's address."""
        return self._bench.addresses.get(connection_id, f"http://{connection_id}"), "user", "password"

    def tls(self, connection_id: str) -> HttpTls:
        """Return no certificates."""
        return HttpTls()

    def archive_options(self, connection_id: str) -> dict[str, Any]:
        """Return no options."""
        return {}

    def files(self, topology: Topology) -> StoredFiles:
        """Return the files of the evidence folder and of the topology's store."""
        return StoredFiles(Path(topology.evidence), store_of(topology, self))

    def journal_url(self, connection_id: str) -> str:
        """Return the URL of the journal's file."""
        return self._bench.url


class Bench:
    """Two clusters, a Connect worker per flow, Airflow's API, a journal on disk, and runs of procedures."""

    def __init__(self, folder: Path, dag_id: str = "planned_failover", **topology: Any) -> None:
        self.dag_id = dag_id
        self.folder, self.url = folder, f"sqlite:///{folder}/journal.db"
        self.clusters = {alias: Cluster(alias) for alias in ("primary", "standby")}
        self.workers = {
            "standby": Worker({"p.source": "RUNNING", "p.checkpoint": "RUNNING"}),
            "primary": Worker({"s.source": "STOPPED", "s.checkpoint": "STOPPED"}),
        }
        self.api, self.connections, self.hook = Api(), Connections(self), Hook()
        self.addresses: dict[str, str] = {}
        self.probe_answers: dict[int, Any] = {}
        self.probed: list[int] = []
        self.source_probe: Any = None
        self.planned_denials: tuple[str, ...] = ()
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

    def cluster(self, alias: str) -> Any:
        """Return a client of a cluster."""
        return self.clusters[alias]

    def acls(self, cluster: Any) -> Any:
        """Return the ACL entries of a cluster."""
        return Acls(cluster)

    def context(self, run_id: str = "r1", attempt: int = 1) -> dict[str, Any]:
        """Return the context that Airflow gives a task on one of its tries."""
        now = datetime.now(UTC)
        times = {"start_date": now, "queued_at": None, "run_after": now, "clear_number": 0}
        run = SimpleNamespace(dag_id=self.dag_id, run_id=run_id, **times)
        return {
            "dag_run": run,
            "params": self.params,
            "task_instance": (ti := SimpleNamespace(id=f"ti-{run_id}", try_number=attempt)),
            "ti": ti,
        }

    def change_params(self, run_id: str = "r1", **changes: Any) -> None:
        """Give a run other params, as if it had been opened with them: an opened run keeps those of its opening."""
        self.params = self.params | changes
        procedure = self.procedure(run_id)
        request = request_of(procedure.topology, self.dag_id, self.params).model_dump(mode="json")
        opened = self.entries(Step.OPEN_PROCEDURE, run_id)[0].payload | {"request": request}
        procedure.journal.append(procedure.id, Step.OPEN_PROCEDURE, Entry.OPENED, procedure.lease.epoch, opened)

    def procedure(self, run_id: str = "r1") -> Run:
        """Return a run, constructed as steps do."""
        return procedure_of(self.context(run_id))

    @property
    def journal(self) -> Journal:
        """The journal on disk."""
        return Journal(self.url)

    def no_watcher(self, minutes: float = 2) -> None:
        """Set the watcher's last heartbeat to so many minutes ago."""
        Journal(self.url, clock=lambda: datetime.now(UTC) - timedelta(minutes=minutes)).show_life(Step.WATCH_OLD_SOURCE)

    def kinds(self, step: str, run_id: str = "r1") -> list[str]:
        """Return the kinds of a step's journal entries, in order."""
        return [e.kind for e in self.entries(step, run_id)]

    def entries(self, step: str, run_id: str = "r1") -> list[JournalEntry]:
        """Return a step's journal entries."""
        return self.journal.entries(f"{self.dag_id}-{run_id}", step)

    def opened(self, run_id: str = "r1") -> Run:
        """Return a run that holds the lease; the watcher of old sources has a new heartbeat."""
        self.journal.show_life(Step.WATCH_OLD_SOURCE)
        procedure = self.procedure(run_id)
        # As each step does: from then on the opening's entries are anchored.
        procedure.anchors.refuse_contradicted_journal()
        open_run(procedure)
        return procedure

    def done(self, procedure: Run, step: str, **figures: Any) -> None:
        """Write intent and outcome of a step; figures that are not given are empty."""
        procedure.authority.write(step, Entry.INTENT, {"try": 1})
        self.tell(procedure, step, Entry.OUTCOME, figures)

    def tell(self, procedure: Run, step: str, kind: Entry, figures: Mapping[str, Any]) -> None:
        """Write one entry of a step; figures that are not given are empty."""
        tell(procedure, step, kind, figures)

    def planned(
        self, run_id: str = "r1", remote: str = "orders", groups: tuple[str, ...] = (), excluded: Mapping[str, str] = {}
    ) -> Run:
        """Return a run that is open, ready and forecast, and whose plan bob has approved."""
        procedure = self.opened(run_id)
        self.done(procedure, Step.CHECK_READINESS, isolation="read_uncommitted")
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
        plan = FailoverPlan(
            procedure.id,
            "planned_failover",
            "primary",
            "standby",
            "maintenance",
            "identity",
            {},
            (("orders", remote, 1, "id-orders"),),
            listed,
            (str(FENCE),),
            (str(TARGET_FENCE),),
            {"max_fence_seconds": 600.0},
            False,
            0,
            None,
            excluded=tuple(ExcludedGroup(g, "will not empty", policy, 1, 0, True) for g, policy in excluded.items()),
            denials=self.planned_denials,
        )
        stored = vars(procedure.artifacts.save_json("plan", plan.as_dict()))
        self.done(procedure, Step.FORECAST, plan_file=stored, plan_digest=plan.digest, active_groups=list(groups))
        self.api.answer(Step.APPROVE_FAILOVER, f"Move? Plan {plan.digest}")
        self.done(procedure, Step.APPROVE_FAILOVER, asked=True)
        return procedure

    def lost(self, run_id: str = "r1", known_end: int = 10) -> Run:
        """Return an unplanned run whose inventory bob has approved, with a source that does not answer.

        The source's log was last sampled up to ``known_end``.
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
        """Return an unplanned run whose plan bob has approved, with an armed fence on the lost source.

        The target's log end was 10 when the loss was assessed.
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

    def stopped_without_source(self, procedure: Run, remote: str = "orders", stops: Sequence[str] = ()) -> None:
        """Write the outcomes from stop_mirror_maker to commit_groups, without any position.

        Args:
            stops: connectors that were asked to stop; the others had been STOPPED before.
        """
        target, at = self.clusters["standby"], TopicPartition(remote, 0)
        self.workers["standby"].states.update(dict.fromkeys(("p.source", "p.checkpoint"), "STOPPED"))
        replicated = procedure.artifacts.save("replicated", partitions_frame({}, "offset"))
        if stops:
            record_fact(procedure.authority, Step.STOP_MIRROR_MAKER, ConnectorsToStop(stops_connectors=stops))
        self.done(
            procedure,
            Step.STOP_MIRROR_MAKER,
            boundary=procedure.artifacts.save("boundary", partitions_frame({at: target.log_ends[at]}, "offset")),
            replicated=replicated,
        )
        self.done(procedure, Step.TRANSLATE_OFFSETS, digest="t" * 64)
        self.done(procedure, Step.REVIEW_TRANSLATION, asked=False)
        self.done(
            procedure,
            Step.COMMIT_GROUPS,
            local_ends=procedure.artifacts.save(
                "local_ends", partitions_frame(target.ends(local_partitions(procedure)), "offset")
            ),
        )

    def stopped(self, run_id: str = "r1", remote: str = "orders", excluded: Mapping[str, str] = {}) -> Run:
        """Return a run that has fenced, drained, stopped, reviewed, committed and seeded: open_target is next."""
        procedure = self.planned(run_id, remote, excluded=excluded)
        self.stopped_after_drain(procedure, [], remote)
        return procedure

    def stopped_after_drain(self, procedure: Run, groups: list[str], remote: str = "orders") -> None:
        """Write the outcomes from the fence to the seed, with the frozen positions of these groups."""
        source, target = self.clusters["primary"], self.clusters["standby"]
        record_fact(procedure.authority, Step.FENCE_PRODUCERS, AclEntriesToAdd(adds_acl_entries=[FENCE]))
        source.acls |= {GRANT, FENCE}
        cut_off = procedure.artifacts.save("cut_off", partitions_frame({ORDERS: source.log_ends[ORDERS]}, "offset"))
        fenced = {"cut_off": cut_off, "fenced_at": procedure.now()}
        self.tell(procedure, Step.FENCE_PRODUCERS, Entry.OUTCOME, fenced)
        frozen = procedure.artifacts.save("source_positions", positions_frame(procedure, groups))
        since = commits_end(procedure)
        self.done(procedure, Step.DRAIN_CONSUMERS, groups=groups, positions=frozen, commits_end=since)
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
        self.done(procedure, Step.TRANSLATE_OFFSETS, digest="t" * 64)
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

    def reader(self, alias: str, isolation: str = "read_uncommitted") -> Any:
        """Return a reader of the records that were written through `writer` or put into the cluster by a test."""
        cluster = self.clusters[alias]

        def ranges(
            spans: Mapping[TopicPartition, tuple[int, int]], limit: int | None = None, **_: Any
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

        def record_at(tp: TopicPartition, offset: int) -> Record:
            return Record(*tp, offset, 1_000, False, None, cluster.records.get(tp, {}).get(offset, "v").encode(), ())

        def last_records(
            partitions: Iterable[TopicPartition], take: Callable[[Any], Any], *_: Any, **__: Any
        ) -> dict[TopicPartition, Tail]:
            ends = {
                tp: (end, end - 1 - cluster.markers.get(tp, 0))
                for tp in partitions
                for end in (cluster.log_ends.get(tp, 0),)
            }
            return {
                tp: Tail((take(Message(record_at(tp, last))),) if end else (), 0, end)
                for tp, (end, last) in ends.items()
            }

        def read_all(
            topic: str, _timeout: float = 600.0, take: Any = None, begin: Mapping[TopicPartition, int] | None = None
        ) -> Iterator[Any]:
            first = (begin or {}).get(TopicPartition(topic, 0), 0)
            records = (
                Record(topic, 0, offset, None, False, key, value, ())
                for offset, (key, value) in list(enumerate(cluster.internal.get(topic, [])))[first:]
            )
            return records if take is None else (take(Message(record)) for record in records)

        def scan(spans: Mapping[TopicPartition, OffsetSpan], *_: Any, **__: Any) -> Iterator[Record]:
            cluster.answer()
            for tp, span in spans.items():
                yield from (record_at(tp, offset) for offset in range(span.start, span.end))

        return SimpleNamespace(
            scan=scan,
            range=lambda tp, start, end: [SimpleNamespace(key=cluster.keys.get(tp))],
            ranges=ranges,
            last_records=last_records,
            read_all=read_all,
        )

    def writer(self, alias: str) -> Any:
        """Return a writer for probes and the canary; the probe has the application's rights on its topic."""

        def write(topic: str, partition: int, value: bytes, key: bytes) -> WriteAccepted:
            self.clusters[alias].keys[TopicPartition(topic, partition)] = key
            return WriteAccepted(0, 1)

        def probe(topic: str, partition: int, timeout: float = 10.0) -> Any:
            self.probed.append(partition)
            entries = frozenset(self.clusters[alias].acls)
            if self.clusters[alias].without_acls is Authorizer.OTHER:
                entries = FENCED_BY_ROLE if self.hook.state(alias).fenced else frozenset()
            lets_in = not entries or AclRules(entries).may("User:app", "write", "topic", PROBE_TOPIC)
            answer = WriteAccepted(0, 1) if lets_in else WriteRefused("TOPIC_AUTHORIZATION_FAILED", True, 1)
            return self.probe_answers.get(partition, answer)

        def write_all(topic: str, records: Iterable[tuple[int, Any, Any]], _timeout: float = 60.0) -> list[str]:
            self.clusters[alias].internal.setdefault(topic, []).extend((key, value) for _, key, value in records)
            return []

        return SimpleNamespace(write=write, write_all=write_all, probe=probe)


ORDERS = TopicPartition("orders", 0)
GRANT = AclEntry("topic", "*", "literal", "User:app", "*", "write", "allow")
FENCED_BY_ROLE = frozenset({AclEntry("topic", "none", "literal", "User:app", "*", "write", "allow")})
FENCE = AclEntry("topic", "*", "literal", "User:app", "*", "write", "deny")
TARGET_FENCE = AclEntry("topic", "*", "literal", "User:*", "*", "write", "deny")
