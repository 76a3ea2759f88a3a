"""One run of a procedure, as its steps see it: who it is, what it may touch, what the journal says happened."""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from kafka_dr.domain.canonical import digest_of
from kafka_dr.domain.continued import continued_by
from kafka_dr.domain.naming import Naming
from kafka_dr.domain.topic_partition import TopicPartition
from kafka_dr.errors import ApprovalMissing, BadInput, Contradiction, DeadlinePassed, LeaseLost, Refusal, Superseded
from kafka_dr.hooks.airflow_api import AirflowApi, HitlAnswer
from kafka_dr.hooks.application_drain import ApplicationDrain
from kafka_dr.hooks.client_routing import ClientRouting, FileRouting, HttpRouting
from kafka_dr.hooks.dedicated_mirror_maker import DedicatedMirrorMaker
from kafka_dr.hooks.fence_hook import FenceHook
from kafka_dr.hooks.kafka_acls import ClusterAcls
from kafka_dr.hooks.kafka_cluster import KafkaCluster
from kafka_dr.hooks.kafka_records import RecordReader, RecordWriter, key_and_value
from kafka_dr.hooks.mirror_maker import MirrorMaker
from kafka_dr.hooks.procedure_journal import Journal, JournalEntry
from kafka_dr.hooks.source_probe import SourceProbe
from kafka_dr.hooks.stop_hook import StopHook
from kafka_dr.operators.connections import Connections
from kafka_dr.settings import Flow, Request, Topology
from kafka_dr.vocabulary import APPROVE, Entry, Step

T = TypeVar("T")

#: How long a step looks again by itself before it gives its worker slot back and is woken later.
PATIENCE_SECONDS = 10.0
_LOOK_AGAIN_SECONDS = 0.2


class NotYet(Exception):
    """A look found the awaited state not reached yet; the text says how far it is."""


class WaitLonger(Exception):
    """A wait outlasted the step's patience; the step should be woken later and look again."""


@dataclass(frozen=True)
class Identity:
    """Which run this is."""

    dag_id: str
    run_id: str

    @property
    def procedure_id(self) -> str:
        """Name of the run, fit for a folder."""
        return re.sub(r"[^A-Za-z0-9._-]", "_", f"{self.dag_id}-{self.run_id}")


class Procedure:
    """A run's request, topology, journal and hooks. Hooks connect on first use; nothing here decides."""

    def __init__(self, identity: Identity, request: Request, topology: Topology, connections: Connections) -> None:
        self.identity = identity
        self.id = identity.procedure_id
        self.request = request
        self.topology = topology
        self.connections = connections
        self._checked_plan: str | None = None

    # -- what it may touch ---------------------------------------------------------------------------------------

    @cached_property
    def journal(self) -> Journal:
        """The journal and lease."""
        return Journal(self.connections.journal_url(self.topology.journal.connection))

    @cached_property
    def api(self) -> AirflowApi:
        """Airflow's API, asked with the product's own account."""
        return AirflowApi(*self.connections.login(self.topology.airflow_api.connection))

    @cached_property
    def source(self) -> KafkaCluster:
        """The cluster where clients are now."""
        return self.cluster(self.request.source)

    @cached_property
    def target(self) -> KafkaCluster:
        """The cluster where clients go."""
        return self.cluster(self.request.target)

    def cluster(self, alias: str) -> KafkaCluster:
        """A client of one cluster that shares nothing with others: neither connections nor what they know."""
        return KafkaCluster(alias, self.connections.kafka(self.topology.cluster(alias).connection))

    def reader(self, alias: str, isolation: str = "read_uncommitted") -> RecordReader:
        """A reader of one cluster's records."""
        return RecordReader(self.connections.kafka(self.topology.cluster(alias).connection), alias, isolation)

    def writer(self, alias: str) -> RecordWriter:
        """A writer to the product's own topics on one cluster."""
        return RecordWriter(self.connections.kafka(self.topology.cluster(alias).connection), alias)

    def probe(self, alias: str) -> RecordWriter | None:
        """A writer with the probe's principal, which a fence must refuse; None where none is configured."""
        connection = self.topology.cluster(alias).probe_connection
        return RecordWriter(self.connections.kafka(connection), alias) if connection else None

    @cached_property
    def source_acls(self) -> ClusterAcls:
        """The ACL entries of the source."""
        return ClusterAcls(self.source.admin, self.request.source)

    @cached_property
    def target_acls(self) -> ClusterAcls:
        """The ACL entries of the target."""
        return ClusterAcls(self.target.admin, self.request.target)

    @cached_property
    def flow(self) -> Flow:
        """The flow that replicates from source to target."""
        return self.topology.flow(self.request.source, self.request.target)

    @cached_property
    def reverse_flow(self) -> Flow | None:
        """The flow the other way, if the topology has one."""
        return self.topology.find_flow(self.request.target, self.request.source)

    def mirror_maker(self, flow: Flow) -> MirrorMaker | DedicatedMirrorMaker:
        """The Connect worker that hosts a flow.

        In dedicated mode what can be known without one, for the flow that a planned procedure stops; any other is
        refused: it could not be seeded or resumed, and without the source nobody asks for what was only stated.
        """
        if flow.stop_hook is not None and flow == self.flow and not self.without_source:
            return self._dedicated(flow, StopHook(*self._login(flow.stop_hook)))
        return self.connect_worker(flow)

    def connect_worker(self, flow: Flow) -> MirrorMaker:
        """The Connect worker that hosts a flow; refused where MirrorMaker 2 runs in dedicated mode."""
        return MirrorMaker(*self._login(flow.worker), self.request.deadlines.connect_request_seconds)

    @cached_property
    def naming(self) -> Naming:
        """How MirrorMaker 2 names topics on the target."""
        return self.topology.names

    @cached_property
    def drain(self) -> ApplicationDrain | None:
        """The application's drain hook, if it has one."""
        hook = self.topology.drain
        return None if hook is None else ApplicationDrain(*self._login(hook.connection))

    @cached_property
    def source_probe(self) -> SourceProbe | None:
        """The application's own view of the source, if it offers one."""
        hook = self.topology.source_probe
        return None if hook is None else SourceProbe(*self._login(hook.connection))

    @cached_property
    def fence_hook(self) -> FenceHook | None:
        """What fences a cluster by other means than its ACLs, if there is such a thing."""
        hook = self.topology.fence_hook
        return None if hook is None else FenceHook(*self._login(hook.connection))

    def _dedicated(self, flow: Flow, hook: StopHook) -> DedicatedMirrorMaker:
        settings = {"source.consumer.isolation.level": flow.isolation, **flow.mirror_maker}
        names = (flow.connectors.source, flow.connectors.checkpoint)
        return DedicatedMirrorMaker(
            flow.source,
            flow.target,
            names,
            settings,
            hook,
            lambda topic: self.reader(flow.target).read_all(topic, take=key_and_value),
        )

    def stop_hook(self, flow: Flow) -> StopHook | None:
        """What stops a flow's MirrorMaker 2 in dedicated mode; None where a Connect worker runs it."""
        return None if flow.stop_hook is None else StopHook(*self._login(flow.stop_hook))

    @cached_property
    def routing(self) -> ClientRouting:
        """Where clients look up their cluster."""
        routing = self.topology.routing
        if routing.kind == "file":
            return FileRouting(Path(routing.path))
        return HttpRouting(*self._login(routing.connection))

    def _login(self, connection: str) -> tuple[str, tuple[str, str] | None]:
        url, user, password = self.connections.login(connection)
        return url, (user, password) if user else None

    def exempt(self, alias: str) -> frozenset[str]:
        """Principals of a cluster that no fence touches."""
        principals = self.topology.cluster(alias).principals
        return frozenset([*principals.mirror_maker, *principals.orchestrator, *principals.exempt])

    @property
    def pair(self) -> str:
        """Order-free name of the pair of clusters: what the lease is for."""
        return self.topology.pair_key(self.request.source, self.request.target)

    @cached_property
    def turned(self) -> Procedure:
        """This very run as seen from the other cluster: source and target are swapped, id, journal and epoch are the
        same.
        """
        return _Turned(self)

    # -- lease and journal ---------------------------------------------------------------------------------------

    @cached_property
    def epoch(self) -> int:
        """The epoch this process acts under: the newest of this procedure when it was first asked; a refusal if
        there is none.
        """
        lease = self.journal.lease(self.pair)
        if lease is not None and lease.holder == self.id:
            return lease.epoch
        opened = self.opened
        if opened is None:
            raise Refusal(f"{self.id} holds no lease", "it never took one", "Start the procedure anew.")
        return opened.epoch

    @property
    def opened(self) -> JournalEntry | None:
        """What open_procedure wrote down about this run."""
        return self.journal.last(self.id, Step.OPEN_PROCEDURE, Entry.OPENED)

    @property
    def cool_down(self) -> dict[str, Any] | None:
        """The cool-down that this run does not wait for: after whose end, until when, and why; None where none was
        running.
        """
        opened = self.opened
        return None if opened is None else opened.payload.get("cool_down")

    @property
    def took_lease(self) -> bool:
        """Whether this procedure ever took its lease."""
        try:
            return self.epoch > 0
        except Refusal:
            return False

    def hold_lease(self) -> None:
        """Refuse unless this procedure still holds the pair under its own epoch; asked just before every act."""
        try:
            self.journal.check_lease(self.pair, self.id, self.epoch)
        except LeaseLost:
            self.refuse_if_continued()
            raise

    @property
    def continues(self) -> str | None:
        """The planned procedure that this one goes on from, by what was opened; before that, by what was asked for."""
        opened = self.opened
        asked = self.request.choices.get("continue_procedure")
        return asked if opened is None else (opened.payload.get("continues") or {}).get("procedure_id")

    def other(self, procedure_id: str) -> Procedure | None:
        """Another procedure of the journal, with what it was triggered with; None if the journal knows none of this
        name.
        """
        opened = self.journal.last(procedure_id, Step.OPEN_PROCEDURE, Entry.OPENED)
        if opened is None:
            return None
        found = Procedure(
            Identity(opened.payload["dag_id"], opened.payload["run_id"]),
            Request(**opened.payload["request"]),
            self.topology,
            self.connections,
        )
        found.journal = self.journal
        return found

    def require_other(self, procedure_id: str) -> Procedure:
        """As `other`, of a procedure that entries of the journal name; a contradiction if it was never opened."""
        found = self.other(procedure_id)
        if found is None:
            raise Contradiction(
                f"The journal names {procedure_id}, and does not say what it was started with",
                "no entry of its opening",
                "Look at the journal's database; start a new run.",
            )
        return found

    def refuse_if_continued(self) -> None:
        """Refuse every step of a procedure that another one goes on from."""
        successor = continued_by(self.journal.entries(self.id, Step.OPEN_PROCEDURE, Entry.NOTE))
        if successor is not None:
            raise LeaseLost(
                f"{self.id} is continued by {successor}",
                "the lease was handed over",
                "Nothing is left to do in this run; see that one.",
            )

    def take_turn(self) -> None:
        """Take a new epoch for this process: an older one of the same procedure, orphaned or frozen, can act no
        more.
        """
        self.hold_lease()
        self.epoch = self.journal.take_lease(self.pair, self.id, renew=True)

    @contextmanager
    def acting(self, undo: Callable[[], object]) -> Iterator[None]:
        """The lease is held just before a mutating call and just after it.

        A process that stood still in between may act after the source was given back: it undoes that, unless another
        procedure has taken the pair since, whose doing it may be by now.
        """
        self.hold_lease()
        try:
            yield
        finally:
            # Also after a failure: what was interrupted, or had no answer in time, may have taken effect.
            self._undo_if_late(undo)

    def _undo_if_late(self, undo: Callable[[], object]) -> None:
        try:
            self.hold_lease()
        except (LeaseLost, Superseded):
            if self.may_undo():
                undo()
            raise

    def may_undo(self) -> bool:
        """Whether what was done too late is this procedure's to undo: the source was given back, and nobody took the
        pair since.
        """
        lease = self.journal.lease(self.pair)
        return lease is not None and lease.holder == self.id and self.began(Step.RETURN_TO_SOURCE) is not None

    def write(self, step: str, kind: Entry, payload: Mapping[str, Any]) -> None:
        """Append one entry under this procedure's epoch."""
        self.journal.append(self.id, step, kind, self.epoch, dict(payload))

    def outcome(self, step: str) -> dict[str, Any] | None:
        """What a step wrote when it was done, or None."""
        entry = self.journal.last(self.id, step, Entry.OUTCOME)
        return None if entry is None else entry.payload

    def outcome_entry(self, step: str) -> JournalEntry:
        """The newest entry that a step wrote when it was done; a refusal if there is none."""
        done = self.journal.last(self.id, step, Entry.OUTCOME)
        if done is None:
            raise Refusal(
                f"{step} did not happen",
                "no outcome of it in the journal",
                "Marking a task successful does not do its work. Before the opening the procedure returns by itself:"
                " start a new one; after it, clear that task.",
            )
        return done

    def figures(self, step: str) -> dict[str, Any]:
        """A done step's figures; a refusal if it left none."""
        figures: dict[str, Any] = self.outcome_entry(step).payload
        return figures

    def began(self, step: str) -> float | None:
        """When a step first wrote its intent, in seconds since 1970."""
        entries = self.journal.entries(self.id, step, Entry.INTENT)
        return entries[0].at.timestamp() if entries else None

    def clock(self, step: str) -> float:
        """When the step's newest try began, in seconds since 1970: being woken goes on, being cleared starts anew."""
        entries = self.journal.entries(self.id, step, Entry.INTENT)
        tries = [e.payload.get("try") for e in entries if "try" in e.payload]
        started = [e.at.timestamp() for e in entries if tries and e.payload.get("try") == tries[-1]]
        return started[0] if started else time.time()

    def refuse_other_run(self) -> None:
        """Refuse a run whose id differs from another's only in characters no folder takes: it would act under that
        one's lease.
        """
        opened = self.opened
        if opened is not None and opened.payload["run_id"] != self.identity.run_id:
            raise BadInput(
                f"The run id {self.identity.run_id} is too much like another",
                opened.payload["run_id"],
                "Trigger the DAG again under another run id.",
            )

    def refuse_if_going_back(self) -> None:
        """Refuse to go forward once the procedure was aborted or is being given back, unless the target may already
        be open.
        """
        if self.began(Step.OPEN_TARGET) is not None:
            return
        aborted = self.aborted()
        if aborted is not None:
            raise Refusal(
                f"{aborted['by']} aborted the procedure",
                aborted["reason"],
                "It returns to the source; start a new one when the reason is gone.",
            )
        if self.began(Step.RETURN_TO_SOURCE) is not None:
            raise Refusal(
                "The source is being given back to its clients",
                "return_to_source had begun",
                "Clear return_to_source until it is done; then start a new procedure.",
            )

    def aborted(self) -> dict[str, Any] | None:
        """Who aborted the procedure and why; None if nobody did."""
        entry = self.journal.last(self.id, Step.ABORT_PROCEDURE, Entry.ABORT)
        return None if entry is None else entry.payload

    # -- waiting -------------------------------------------------------------------------------------------------

    def fence_deadline(self) -> float | None:
        """When the fence has lasted as long as it may, in seconds since 1970; None before the fence."""
        began = self.began(Step.FENCE_PRODUCERS)
        return None if began is None else began + self.request.deadlines.max_fence_seconds

    def check_fence_clock(self) -> None:
        """Refuse to go on once the fence has lasted too long, unless the target is already open."""
        deadline = self.fence_deadline()
        if deadline is not None and time.time() > deadline and self.began(Step.OPEN_TARGET) is None:
            raise DeadlinePassed(
                "Clients have been fenced for as long as allowed",
                f"max_fence_seconds={self.request.deadlines.max_fence_seconds:.0f}",
                "The procedure returns to the source; find what took so long before trying again.",
            )

    def wait(self, step: str, what: str, look: Callable[[], T], seconds: float) -> T:
        """Look until the awaited state is there.

        Args:
            step: whose clock counts.
            what: the awaited state, as a sentence's beginning.
            look: returns what was found, or raises NotYet.
            seconds: deadline, counted from when the step's try began; the fence's own deadline counts too.

        Raises:
            DeadlinePassed: with what was seen last.
            WaitLonger: when the step should free its slot and be woken later.
        """
        forward = step != Step.RETURN_TO_SOURCE
        deadline = self.clock(step) + seconds
        if forward and step != Step.FENCE_PRODUCERS and self.began(Step.OPEN_TARGET) is None:
            deadline = min(deadline, self.fence_deadline() or deadline)
        patience = time.monotonic() + PATIENCE_SECONDS
        while True:
            if forward:
                self.refuse_if_going_back()
            try:
                return look()
            except NotYet as found:
                if time.time() >= deadline:
                    raise DeadlinePassed(
                        f"{what}: not within {seconds:.0f} s",
                        str(found),
                        "See this step's page for what may be safely done.",
                    ) from None
                if time.monotonic() >= patience:
                    raise WaitLonger(f"{what}: {found}") from None
            time.sleep(_LOOK_AGAIN_SECONDS)

    # -- files ---------------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Where this procedure's evidence and larger results lie."""
        return Path(self.topology.evidence) / self.id

    def keep(self, name: str, frame: pd.DataFrame) -> dict[str, Any]:
        """Write a frame beside the evidence; what it returns goes into the journal.

        Its content is in the file's name: what a second process of a step writes never replaces what the journal knows.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        # Several threads, and processes on several machines, may write the same at once.
        aside = self.folder / f".{name}.{uuid.uuid4().hex}.writing"
        frame.to_parquet(aside, index=False)
        digest = _sha256(aside)
        path = aside.replace(self.folder / f"{name}-{digest[:12]}.parquet")
        return {"file": path.name, "rows": len(frame), "sha256": digest}

    def kept(self, receipt: Mapping[str, Any]) -> pd.DataFrame:
        """Read a frame back; a refusal if it is not the one the journal knows."""
        path = self.folder / receipt["file"]
        if not path.exists() or _sha256(path) != receipt["sha256"]:
            raise Contradiction(
                f"{path} is not the file that was written",
                f"its SHA-256 is not {receipt['sha256'][:12]}...",
                "Before the opening the procedure returns by itself: start a new one; after it, clear the task that"
                " wrote it, so that it is made again.",
            )
        return pd.read_parquet(path)

    # -- the plan and its approval -------------------------------------------------------------------------------

    @property
    def without_source(self) -> bool:
        """Whether the source was given up: nothing that a later step does may need it."""
        return self.outcome(Step.CONFIRM_SOURCE_LOST) is not None

    @property
    def planning(self) -> tuple[Step, Step]:
        """The step that wrote the plan, and the gate that approves it."""
        return (
            (Step.ASSESS_DATA_LOSS, Step.APPROVE_DATA_LOSS)
            if self.without_source
            else (Step.FORECAST, Step.APPROVE_FAILOVER)
        )

    def require_approved_plan(self) -> dict[str, Any]:
        """The valid approval of this run's plan, as of `require_approval`."""
        step, gate = self.planning
        return self.require_approval(gate, self.figures(step)["plan_digest"])

    def plan(self) -> dict[str, Any]:
        """The approved-or-to-be-approved plan; a refusal if it is not the one its digest names."""
        entry = self.outcome_entry(self.planning[0])
        plan: dict[str, Any] = entry.payload["plan"]
        if entry.hash != self._checked_plan:
            if digest_of(plan) != entry.payload["plan_digest"]:
                raise Contradiction(
                    "The plan in the journal is not the one its digest names",
                    entry.payload["plan_digest"],
                    "Start the procedure anew.",
                )
            self._checked_plan = entry.hash
        return plan

    def starter(self) -> str:
        """Who triggered this run, by Airflow's own record; an unknown starter is refused."""
        name = self.api.dag_run(self.identity.dag_id, self.identity.run_id).triggering_user_name
        if not name:
            raise ApprovalMissing(
                "Nobody knows who started this run",
                "Airflow names no triggering user",
                "Trigger it as a person: in the web page, or over the API with your own account.",
            )
        return name

    def require_approval(self, gate: str, digest: str) -> dict[str, Any]:
        """Read from Airflow's API who answered a gate; refuse unless it is a valid approval of this very digest.

        Asked by every irreversible act itself: neither XCom nor a task's state is believed.
        """
        answer = self.api.hitl(self.identity.dag_id, self.identity.run_id, gate)
        if answer is None or not answer.chosen_options:
            raise ApprovalMissing(
                f"{gate} was never answered",
                "Airflow holds no answer",
                "Marking a gate successful approves nothing. Before the opening the procedure returns by itself: start"
                " a new one; after it, clear that gate alone and have it answered.",
            )
        problem = self._problem_with(answer, digest)
        if problem or answer.responded_at is None:
            raise ApprovalMissing(
                f"{gate} is not a valid approval",
                problem,
                "Before the opening the procedure returns by itself: start a new one; after it, clear that gate alone"
                " and have a second person answer it.",
            )
        return {
            "gate": gate,
            "by": answer.responded_by_name or answer.responded_by_id,
            "at": answer.responded_at.isoformat(),
            "digest": digest,
        }

    def _problem_with(self, answer: HitlAnswer, digest: str) -> str:
        starter = self.starter()
        if answer.chosen_options != (APPROVE,):
            return f"the answer was {', '.join(answer.chosen_options)}"
        if not (answer.responded_by_id and answer.responded_by_name and answer.responded_at):
            return "nobody is named as having answered (a timeout is no approval)"
        if starter in (answer.responded_by_id, answer.responded_by_name):
            return f"{starter} started the run and answered the gate"
        age = time.time() - answer.responded_at.timestamp()
        if not digest or answer.digest != digest:
            return f"the answered question does not name digest {digest}"
        # Once the target was opened under it, an approval that grows old must not keep clients standing still.
        if age > self.request.deadlines.approval_valid_seconds and self.outcome(Step.OPEN_TARGET) is None:
            return (
                f"it was given {age:.0f} s ago and is valid for {self.request.deadlines.approval_valid_seconds:.0f} s"
            )
        return ""

    def now(self) -> str:
        """The time as ISO 8601 UTC."""
        return datetime.now(UTC).isoformat()

    def close(self) -> None:
        """Let go of the hooks that were used."""
        for name in ("source_acls", "target_acls", "source", "target", "journal"):
            self.__dict__.pop(name, None)


class _Turned(Procedure):
    """A procedure seen the other way round: what is written for the source can be done to the target.

    It has the clients, the lease and the entries of the one that it was made of, and does nothing that this one may not
    do.
    """

    def __init__(self, whole: Procedure) -> None:
        swapped = {"source": whole.request.target, "target": whole.request.source}
        super().__init__(whole.identity, whole.request.model_copy(update=swapped), whole.topology, whole.connections)
        self._whole = whole

    journal = property(lambda self: self._whole.journal)
    epoch = property(lambda self: self._whole.epoch)
    turned = property(lambda self: self._whole)
    source = property(lambda self: self._whole.target)
    target = property(lambda self: self._whole.source)
    source_acls = property(lambda self: self._whole.target_acls)
    target_acls = property(lambda self: self._whole.source_acls)

    def hold_lease(self) -> None:
        """As the whole."""
        self._whole.hold_lease()

    def take_turn(self) -> None:
        """As the whole, which acts under the new epoch from then on."""
        self._whole.take_turn()

    def write(self, step: str, kind: Entry, payload: Mapping[str, Any]) -> None:
        """As the whole."""
        self._whole.write(step, kind, payload)

    def may_undo(self) -> bool:
        """Never: clients are on the other cluster, and only that one is given back to them."""
        return False


def partitions_frame(ends: Mapping[TopicPartition, int], column: str) -> pd.DataFrame:
    """Offsets by partition as a frame of topic, partition and the named column, sorted."""
    rows = sorted((tp.topic, tp.partition, offset) for tp, offset in ends.items())
    return pd.DataFrame(rows, columns=["topic", "partition", column]).astype(
        {"topic": str, "partition": "int32", column: "int64"}
    )


def frame_partitions(frame: pd.DataFrame, column: str) -> dict[TopicPartition, int]:
    """The reverse of `partitions_frame`."""
    return {
        TopicPartition(t, int(p)): int(o)
        for t, p, o in zip(frame["topic"], frame["partition"], frame[column], strict=True)
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
