"""Round trips on the profile `production` during which brokers, controllers, workers and steps are lost or restart."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from lab.checker import CheckResult
from lab.environment.production.nodes import start_nodes
from lab.environment.production.profile import BROKERS, WORKERS, member_name
from lab.environment.production.site import start_processes
from lab.environment.state import ALIASES, Lab
from lab.errors import LabError
from lab.rehearsal.planned import wait_for
from lab.rehearsal.round_trip import Leaving
from tests.faults.support.scene import Diary
from tests.faults.support.trips import SteppedTrips

#: How long what was killed stays away, in seconds: longer than Kafka takes to notice, shorter than a step waits.
AWAY_SECONDS = 25.0
END_SECONDS, WORK_SECONDS = 60.0, 120.0
#: Two cores run six brokers and four workers: clients need longer than on real sites to appear on the other side.
DEADLINES = {"verify_seconds": 300.0, "catch_up_seconds": 600.0}


def set_deadlines(lab: Lab) -> None:
    """Let the topology state DEADLINES, and of all others the product's own."""
    topology = yaml.safe_load(lab.topology.read_text()) | {"deadlines": DEADLINES}
    lab.topology.write_text(yaml.safe_dump(topology, sort_keys=False))


def kill(lab: Lab, name: str, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a process of the lab a signal, and wait until the process has ended."""
    pid = lab.processes.pid(name)
    assert pid is not None, f"{name} does not run"
    os.kill(pid, number)
    assert wait_for(lambda: lab.processes.pid(name) is None, END_SECONDS), f"{name} does not end"


def restart_brokers(lab: Lab, site: str, begun: Callable[[], object]) -> None:
    """Restart the brokers of a site one after the other, as an upgrade does."""
    for node in BROKERS:
        kill(lab, f"broker-{member_name(site, node)}", signal.SIGTERM)
        begun()
        start_nodes(lab, site)


def lose_broker(lab: Lab, site: str, begun: Callable[[], object]) -> None:
    """Kill one broker of a site; start it again after a while."""
    kill(lab, f"broker-{member_name(site, BROKERS[1])}")
    begun()
    time.sleep(AWAY_SECONDS)
    start_nodes(lab, site)


def lose_controller(lab: Lab, site: str, begun: Callable[[], object]) -> None:
    """Kill the active controller of a site; start it again after a while."""
    kill(lab, lab.load().controller_process(site))
    begun()
    time.sleep(AWAY_SECONDS)
    start_nodes(lab, site)


def lose_worker(lab: Lab, site: str, begun: Callable[[], object]) -> None:
    """Kill the Connect worker of a site to which requests go first; start it again after a while."""
    kill(lab, f"connect-{member_name(site, WORKERS[0])}")
    begun()
    time.sleep(AWAY_SECONDS)
    start_processes(lab, f"connect-{site}")


OUTAGES: dict[str, Callable[[Lab, str, Callable[[], object]], None]] = {
    "rolling restart": restart_brokers,
    "broker": lose_broker,
    "controller": lose_controller,
    "worker": lose_worker,
}
#: The step's own process is killed instead of a process of the lab.
STEP_KILLED = "step"


@dataclass(frozen=True)
class Case:
    """What happens while a step is held between its intent and its outcome.

    Attributes:
        step: the step that is held.
        outage: a key of OUTAGES, or STEP_KILLED.
        sites: whose processes are hit: `source` or `target` of the procedure, or both.
    """

    step: str
    outage: str
    sites: tuple[str, ...] = ("source",)

    def __str__(self) -> str:
        return f"{self.step}: {self.outage}" + ("" if self.outage == STEP_KILLED else f" of {' and '.join(self.sites)}")


@dataclass
class Ended:
    """How the procedure of one case ended; `refused_seconds`: the longest time without an accepted write of a client.

    Attributes:
        seconds: from the first step to the last.
        works: after a return: whether clients wrote and read on the source again.
        verdict: of the checker, of a completed procedure.
    """

    case: Case
    outcome: str = "?"
    reason: str = ""
    seconds: float = 0.0
    refused_seconds: float = 0.0
    works: bool = True
    verdict: CheckResult | None = None

    @property
    def wrong(self) -> list[str]:
        """What no outage may cause, as text; a procedure may return if it names why and clients work."""
        if self.outcome == "completed":
            findings = [] if self.verdict is None else self.verdict.lines(limit=5)
            return [] if self.verdict is not None and self.verdict.passed else [f"{self.case}: {findings}"]
        wrong = [] if self.outcome == "returned" and self.reason else [f"{self.case}: {self.outcome}: {self.reason}"]
        return wrong + ([] if self.works else [f"{self.case}: clients do not work after the return"])

    def __str__(self) -> str:
        figures = f"{self.seconds:6.0f} s, writes refused at most {self.refused_seconds:5.1f} s"
        return f"{self.case!s:58} {self.outcome:10} {figures}  {self.reason[:160]}"


@dataclass
class _Hit:
    """The threads that carry out an outage, and what went wrong in them."""

    threads: list[threading.Thread] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)


class OutageTrips(SteppedTrips):
    """Moves clients to and fro; one step of each procedure is held while something fails."""

    load_options: Mapping[str, Any] = {"idempotent": True}

    def __init__(self, lab: Lab, folder: Path, **workload: Any) -> None:
        super().__init__(lab.root, folder, 4245, **workload)
        set_deadlines(lab)
        self.case, self.ended = Case("open_procedure", STEP_KILLED), Ended(Case("open_procedure", STEP_KILLED))
        self._hit = _Hit()

    def suffer_case(self, case: Case) -> Ended:
        """Move the clients to the other cluster, with the case's outage; return how the procedure ended."""
        self.case, self.ended, self._hit = case, Ended(case), _Hit()
        if case.outage == STEP_KILLED:
            self.suffers = {case.step: {"kill_at": 1}}
        else:
            self.suffers = {case.step: {"freeze_at": 1, "meanwhile": self._begin_outage}}
        verdict = self.leave(Leaving(more=5)) if self.source == ALIASES[0] else self.come_back()
        self.ended.verdict = verdict if self.ended.outcome == "completed" else None
        return self.ended

    def run(self, approver: str | None, reason: str, seconds: int = 900, **params: Any) -> int:
        """Run the procedure step by step; note how it ended, and await the end of the outage."""
        began, diary = time.time(), Diary(self._client_folder)
        code = super().run(approver, reason, seconds, **params)
        _, evidence = self.evidence()
        self.ended.outcome, self.ended.reason = evidence["outcome"], evidence["reason_for_outcome"] or ""
        self.ended.seconds = time.time() - began
        if code:
            self.ended.works = self._work_again(self.source)
        for thread in self._hit.threads:
            thread.join()
        assert not self._hit.failures, self._hit.failures
        self.ended.refused_seconds = _longest_gap(diary.read(), began)
        return code

    def _change(self, dag_id: str, params: Mapping[str, Any], writes: bool, **facts: Any) -> CheckResult:
        """Change clusters; MirrorMaker 2 and consumers may repeat what they did when a worker or a broker has ended."""
        return super()._change(dag_id, params, writes, **facts | {"crashed": True, "interrupted": True})

    def _begin_outage(self) -> None:
        """Begin the outage on each site at once; return when a process of each has ended."""
        for site in self.case.sites:
            begun = threading.Event()
            thread = threading.Thread(target=self._carry_out, args=(getattr(self, site), begun))
            self._hit.threads.append(thread)
            thread.start()
            assert begun.wait(END_SECONDS), self._hit.failures

    def _carry_out(self, site: str, begun: threading.Event) -> None:
        try:
            OUTAGES[self.case.outage](self.lab, site, begun.set)
        except BaseException as failure:
            self._hit.failures.append(failure)

    def _work_again(self, cluster: str) -> bool:
        """Whether from now on clients write on a cluster, and each of their groups reads there."""
        diary = Diary(self._client_folder)
        before = len(diary.read().acknowledged[cluster])
        read = {group: _count(diary, cluster, group) for group in self._client_groups}

        def working() -> bool:
            diary.read()
            return len(diary.acknowledged[cluster]) > before and all(
                _count(diary, cluster, group) > count for group, count in read.items()
            )

        return wait_for(working, WORK_SECONDS)


def _count(diary: Diary, cluster: str, group: str) -> int:
    return sum(map(len, diary.consumed[cluster, group].values()))


def _longest_gap(diary: Diary, since: float) -> float:
    """Return the longest time between two accepted writes of the clients, in seconds, on whichever cluster."""
    times: Sequence[float] = sorted(at / 1000 for acks in diary.acknowledged.values() for *_, at in acks)
    after = [at for at in times if at >= since]
    return max((b - a for a, b in pairwise(after)), default=0.0)


def all_run_again(lab: Lab) -> None:
    """Start whatever does not run, so that the next case begins on whole sites."""
    for site in ALIASES:
        start_nodes(lab, site)
        with suppress(LabError):
            start_processes(lab, f"connect-{site}")
