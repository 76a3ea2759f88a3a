"""Run one planned failover on a lab, from the workload to the check; for demos, tests and `many_seeds`.

The load is a set of producers that ignore the drain hook and the routing record; clients are the demo application.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from urllib3.exceptions import HTTPError

from lab.checker import CheckResult, Finding, Ledger, Names, RoundTripCheck, RoundTripObserved, Trip, UnplannedCheck
from lab.checker.client_history import ClientLogs
from lab.checker.readers import ClusterReader, Place
from lab.clients.starting import Clients, OwnProcess
from lab.environment.connect import call_worker, connector_name
from lab.environment.production.site import process_names, start_processes
from lab.environment.state import ALIASES, Lab
from lab.errors import LabError
from lab.rehearsal.run import run_dag
from lab.workload import GroundTruth, Load, Workload
from lab.workload.seeding import await_mirrored

SOURCE, TARGET = "primary", "standby"
CLIENT_KINDS = ("plain", "wide")
CLIENT_SECONDS = 60.0
STEADY_SECONDS = 4.0
RESTART_SECONDS = 90.0


class Rehearsal:
    """Creates a workload, starts clients and load, runs one planned failover, and checks the result.

    Attributes:
        dag_id: the procedure that `run` runs.
        source: alias of the cluster that clients leave.
        target: alias of the cluster that clients move to.
        load_options: further arguments of `Load`.
        crashed: MirrorMaker 2 or the target's broker was killed, so that the target may have repeats.

    Args:
        state: folder of a lab that is up.
        folder: folder for the rehearsal's files: ground truth, acknowledgements and clients' event logs.
        seed: seed of topics, records and groups.
        rate: records per second of producers that ignore the drain hook; 0 for no load.
        scale: factor on the workload's size.
        groups: maximum number of the workload's groups (clients and load have further groups); None for all.
        load_topics: partition counts of the load's topics by name; None: two topics with names from the seed.
    """

    dag_id = "planned_failover"
    load_options: Mapping[str, Any] = {}

    def __init__(
        self, state: Path, folder: Path, seed: int, rate: int = 0, scale: float = 1.0, groups: int | None = None,
        load_topics: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        self.lab = self.open_lab(state)
        self.folder = folder
        self.seed, self.rate = seed, rate
        self.source, self.target = SOURCE, TARGET
        self.crashed = False
        self.truth = GroundTruth(seed, SOURCE)
        self._rng = random.Random(seed)
        self._scale, self._groups = scale, groups
        self._application: Clients | None = None
        self._client_groups: list[str] = []
        self._client_topics: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._client_folder = folder / f"clients-{seed}"
        load_folder = folder / f"load-{seed}"
        self.load = Load(self.status, load_folder, rate, seed, load_topics, **self.load_options) if rate else None

    def open_lab(self, state: Path) -> Lab:
        """Return the lab whose folder is `state`; a subclass returns a lab in containers."""
        return Lab(state)

    def make_application(self) -> Clients:
        """Return the control of this rehearsal's demo application, which is not started yet."""
        return OwnProcess(self.lab, self._client_folder, self.folder / "clients.log")

    @property
    def status(self) -> dict[str, Any]:
        """The lab's current status document."""
        return self.lab.status()

    @property
    def policy(self) -> str:
        """Naming policy of mirrored topics: `identity` or `default`."""
        policy: str = self.status["policy"]
        return policy

    def seed_topics(self) -> GroundTruth:
        """Create topics, records and groups on the source; return the ground truth of all these.

        Return when the target has all mirrored topics and the source connector, if in a Connect worker, runs steadily.
        """
        if self.load:
            self.load.create_topics()
        self.truth.take_in(Workload(self.seed, self.status, scale=self._scale, groups=self._groups).create())
        clients = Workload(self.seed + 1, self.status, scale=0.2, kinds=CLIENT_KINDS, groups=3).create()
        self._client_topics, self._client_groups = list(clients.topics), list(clients.positions)
        self.truth.take_in(clients)
        topics = {name: topic.partitions for name, topic in self.truth.topics.items()} | (
            self.load.topics if self.load else {}
        )
        await_mirrored(self.status, TARGET, {self.remote(name): count for name, count in topics.items()})
        # MirrorMaker 2 reassigns its tasks some seconds after it has created new topics; a reassigned task is not
        # RUNNING for a moment. In dedicated mode no REST API shows the state.
        if not self.lab.load().dedicated:
            self.await_state("RUNNING", STEADY_SECONDS)
        return self.truth

    def remote(self, topic: str) -> str:
        """Return the name that the mirrored copy of a source topic has on the target."""
        return topic if self.policy == "identity" else f"{self.source}.{topic}"

    @property
    def idle_groups(self) -> list[str]:
        """Ids of the workload's groups for which the demo application runs no consumer, sorted."""
        return sorted(set(self.truth.positions) - set(self._client_groups))

    def start_clients(self) -> None:
        """Start the demo application on the source and wait until its producer writes and all its groups read."""
        self._application = self.make_application()
        self._application.start(self._client_topics, self._client_groups)
        if not self._clients_work(self.source):
            raise TimeoutError(
                f"the demo clients did not all write and read on {self.source} within {CLIENT_SECONDS:.0f} s; read the"
                f" clients' errors in {self.folder / 'clients.log'}"
            )

    def start_load(self, seconds: float = 5.0) -> None:
        """Start the load on the source; after `seconds` commit positions of three new groups on the load's topics."""
        if self.load:
            self.load.start()
            time.sleep(seconds)
            self.load.place_groups(self.truth, 3, self._rng)

    def restart_mirror_maker(self, seconds: float = 4.0) -> None:
        """Kill the target's Connect worker with -9 and start it again; under load the target then has repeats.

        This method waits until records are mirrored again, and then `seconds` longer.
        """
        self.crashed = True
        self.kill(f"connect-{self.target}")
        self.start_again(f"connect-{self.target}")
        mirrored = self.mirrored_counter()
        before = mirrored()
        # Connect may still report states from before the kill: only new mirrored records prove that the worker runs.
        if not wait_for(lambda: mirrored() > before, RESTART_SECONDS):
            raise TimeoutError(
                f"MirrorMaker 2 mirrored nothing within {RESTART_SECONDS:.0f} s after its restart; read the log of"
                f" connect-{self.target}"
            )
        time.sleep(seconds)

    def kill(self, *names: str) -> None:
        """Kill processes of the lab with -9, and wait until they have ended; `start_again` says what the names are."""
        names = tuple(process for name in names for process in process_names(self.lab, name))
        for pid in [self.lab.processes.pid(name) for name in names]:
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
        # While the killed process still exists, `start_again` would regard it as running and start no new process.
        if not wait_for(lambda: all(self.lab.processes.pid(name) is None for name in names), RESTART_SECONDS):
            raise TimeoutError(
                f"{' or '.join(names)} still runs {RESTART_SECONDS:.0f} s after kill -9; read the state of the process"
                " with ps: a process in state D waits for a disk"
            )

    def start_again(self, name: str) -> None:
        """Start a site's killed brokers or Connect workers (`broker-ALIAS`, `connect-ALIAS`), and await answers."""
        start_processes(self.lab, name)

    def await_state(self, state: str, seconds: float = 0.0) -> None:
        """Wait until MirrorMaker 2's source connector and its tasks have been in `state` for `seconds` without break.

        `state` is Connect's state, RUNNING or PAUSED.
        """
        since = time.monotonic()

        def reached() -> bool:
            nonlocal since
            if not self._is_in_state(state):
                since = time.monotonic()
                return False
            return time.monotonic() - since >= seconds

        if not wait_for(reached, RESTART_SECONDS):
            raise TimeoutError(
                f"the source connector {self.source}->{self.target} or one of its tasks is not {state} after"
                f" {RESTART_SECONDS:.0f} s; read the log of connect-{self.target}"
            )

    def _is_in_state(self, state: str) -> bool:
        try:
            answer = self._connector("GET", "status")
        except requests.Timeout:
            # The machine is busy: `await_state` asks again.
            return False
        status: dict[str, Any] = answer.json() if answer.ok else {"connector": {"state": None}, "tasks": []}
        return (
            status["connector"]["state"] == state
            and bool(status["tasks"])
            and all(task["state"] == state for task in status["tasks"])
        )

    def _connector(self, method: str, path: str, body: dict[str, str] | None = None) -> requests.Response:
        return call_worker(
            self.lab,
            self.target,
            method,
            f"/connectors/{connector_name(self.source, self.target, 'source')}/{path}",
            body,
        )

    def settle(self) -> list[Finding]:
        """Wait until all clients write and read on the target, then stop load and clients.

        Return a finding if a client did not write or read in time, else [].
        """
        findings = []
        if self._application and not self._clients_work(self.target):
            findings = [Finding("clients", f"did not all work on {self.target} within {CLIENT_SECONDS:.0f} s")]
        self.stop()
        return findings

    def run(self, approver: str | None, reason: str, seconds: int = 900, **params: Any) -> int:
        """Run the procedure and print each step as it ends; return 0 if the procedure completed, else 1.

        Args:
            approver: user who answers the gates; None: each gate waits for a person.
            reason: param `reason` of the run.
            seconds: timeout of the wait for the run's end.
            params: further params of the run.
        """
        conf = {"source": self.source, "target": self.target, "reason": reason, **params}
        try:
            return run_dag(self.lab, self.dag_id, conf, approver, seconds)
        except (LabError, HTTPError) as error:
            print(f"lab: {error}", file=sys.stderr)
            return 1

    def conclude(self, approver: str, **params: Any) -> CheckResult:
        """Run the procedure, wait for the clients' work on the target, and check; return the checker's result.

        A run that did not complete is a finding.

        Args:
            approver: user who answers the gates.
            params: further params of the run.
        """
        code = self.run(approver, f"rehearsal of seed {self.seed}", **params)
        unsettled = self.settle() if code == 0 else []
        self.stop()
        _, evidence = self.evidence()
        if code != 0:
            return CheckResult(
                [Finding("run", f"ended as {evidence.get('outcome')}: {evidence.get('reason_for_outcome')}")]
            )
        verdict = self.check(evidence, approver)
        verdict.add(unsettled)
        (self.folder / f"verdict-{self.seed}.json").write_text(
            json.dumps(verdict.document(), indent=1), encoding="utf-8"
        )
        return verdict

    def stop(self) -> None:
        """Stop load and clients; do nothing if load and clients are stopped."""
        if self.load:
            self.load.stop()
        if self._application:
            self._application.stop()
            self._application = None

    def evidence(self) -> tuple[Path, dict[str, Any]]:
        """Return the newest evidence folder, and the document in its evidence.json.

        Raises:
            FileNotFoundError: no procedure has written evidence.
        """
        folder = self.lab.collected(self.lab.evidence)
        files = sorted(folder.glob("*/evidence.json"), key=lambda path: path.stat().st_mtime)
        if not files:
            raise FileNotFoundError(
                f"no evidence.json under {folder}; read in Airflow the log of the task that failed first"
            )
        return files[-1].parent, json.loads(files[-1].read_text(encoding="utf-8"))

    def check(self, evidence: Mapping[str, Any], approver: str | None) -> CheckResult:
        """Save the ground truth, check the client move, and return the check's result.

        The check ends with test writes on the clusters. Load and clients must be stopped. `approver` is the user who
        must have answered the gates; None: any user.
        """
        self.truth.save(self.folder / f"truth-{self.seed}.json")
        with without_garbage_collection():
            return self.checker_for(evidence, approver).check(writes=True)

    def checker_for(self, evidence: Mapping[str, Any], approver: str | None) -> RoundTripCheck | UnplannedCheck:
        """Return the check of this rehearsal's client move; load and clients must be stopped before the check runs."""
        trip = self._trip(evidence, approver, self.idle_groups, crashed=self.crashed)
        return RoundTripCheck(RoundTripObserved(self.make_ledger(), trip, self.status))

    def make_ledger(self) -> Ledger:
        """Return the checker's ledger (`lab.checker.ledger`): all records from before and after the client move."""
        ledger = Ledger(self.source, Names(ALIASES, self.policy))
        ledger.take_truth(self.truth)
        if self.load:
            ledger.take_loads(self.load.acknowledgements(), self.load.topics)
        ledger.turn(self.target, 0)
        ledger.take_clients(self._client_folder)
        return ledger

    def _trip(self, evidence: Mapping[str, Any], approver: str | None, groups: Collection[str], **facts: Any) -> Trip:
        """Return the client move to check; `facts` are further fields of `Trip`.

        Its field `placed` has the source positions that the workload committed for `groups`.
        """
        placed: dict[str, dict[Place, int]] = {group: {} for group in groups}
        for group, topic, partition, offset in self.truth.placed():
            if group in placed:
                placed[group][topic, partition] = offset
        folder = Path(self.status["evidence"], evidence["procedure_id"])
        aliases = (self.source, self.target)
        return Trip(0, self.dag_id, *aliases, evidence, folder, placed=placed, approver=approver, **facts)

    def mirrored_counter(self) -> Callable[[], int]:
        """Return a function that returns the sum of the target's log ends at the time of its call.

        The sum is that of the load's mirrored topics or, without load, of the workload's mirrored topics.
        """
        topics = (
            self.load.topics if self.load else {name: topic.partitions for name, topic in self.truth.topics.items()}
        )
        places = [(self.remote(name), p) for name, count in topics.items() for p in range(count)]
        reader = ClusterReader(self.target, self.status)
        return lambda: sum(reader.ends(places).values())

    def _clients_work(self, cluster: str) -> bool:
        def working() -> bool:
            if self._application:
                self._application.collect()
            logs = ClientLogs.read(self._client_folder) if self._client_folder.exists() else ClientLogs()
            reading_groups = {
                group for (alias, group), places in logs.consumed.items() if alias == cluster and any(places.values())
            }
            return bool(logs.acknowledged[cluster]) and set(self._client_groups) <= reading_groups

        return wait_for(working, CLIENT_SECONDS)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Turn garbage collection off during the block, because it would scan millions of tuples again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def rehearsal_under_load(state: Path, folder: Path, seed: int, rate: int, **workload: Any) -> Iterator[Rehearsal]:
    """Yield a rehearsal on a running lab, with topics, groups, clients and load; stop clients and load afterwards.

    Args:
        workload: `scale`, `groups` and other arguments of `Rehearsal`.
    """
    rehearsal = Rehearsal(state, folder, seed, rate, **workload)
    try:
        rehearsal.seed_topics()
        rehearsal.start_clients()
        rehearsal.start_load()
        yield rehearsal
    finally:
        rehearsal.stop()


def wait_for(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait until `holds` returns True, at most `seconds`; return False if the time passed first."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True
