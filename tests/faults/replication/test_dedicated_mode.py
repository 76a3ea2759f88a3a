"""In dedicated mode a hook ends MirrorMaker 2's process, and the target's still ends prove its end."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lab.environment.connect import FLOWS
from lab.environment.state import DEDICATED, Lab
from lab.rehearsal.planned import SOURCE, Rehearsal
from lab.rehearsal.round_trip import Leaving
from lab.rehearsal.unplanned import Accident
from tests.faults.diagnosis.diagnosed_site import LIMITS, DiagnosedSite
from tests.faults.diagnosis.flow_faults import hidden_topic
from tests.faults.readiness.checked_site import BUSY, GROUP, IDLE, checked_site
from tests.faults.support import always_on
from tests.faults.support.lost_scene import LostScene, figures_of, lost_scene, quicken
from tests.faults.support.scene import planned_without_findings, until
from tests.faults.support.stepping import stepping
from tests.faults.support.stop_server import StopServer
from tests.faults.support.trips import stepped_trips
from tests.support.rehearsals import SEED, kept_if_it_fails

FLOW = "->".join(FLOWS["standby"])
WITHOUT_REST = f"MirrorMaker 2 of {FLOW} runs in dedicated mode, without a REST API"
#: For the target's ends to stand still; while the hook lies they do not.
STOP_SECONDS = 10.0
RATE = 2_000


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_a_planned_failover_is_exact(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Under load, offsets are read from MirrorMaker 2's topic, and its process ends before the translation."""
    lab = Lab(fresh_lab(policy, airflow=False, dedicated=True))
    made = Rehearsal(lab.root, tmp_path / "rehearsal", SEED, RATE, scale=0.1, groups=6)
    try:
        with kept_if_it_fails(lab.root, tmp_path), StopServer(lab) as hook, stepping(lab, tmp_path / "steps") as driver:
            made.seed_topics()
            made.start_clients()
            made.start_load()
            _, verdict = planned_without_findings(made, driver)
            assert lab.processes.pid(DEDICATED) is None and hook.asked == [FLOW]
    finally:
        made.stop()
    assert verdict.figures["acknowledged_by_load"] > RATE


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_clients_come_back(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Twice there and back under load: offsets are set in the process's topic, and the hook starts it again."""
    lab = Lab(fresh_lab(policy, airflow=False, dedicated=True))
    with (
        StopServer(lab, starts=True) as hook,
        stepped_trips(lab.root, tmp_path, SEED, RATE // 4, recorded=False) as trips,
    ):
        for move in (partial(trips.leave, Leaving(more=10)), trips.come_back) * 2:
            verdict = move()
            print(f"{policy}, change {trips.number - 1}: {dict(verdict.figures)}", flush=True)
            assert verdict.passed, "\n".join(verdict.lines(limit=5))
        assert set(hook.started) == {FLOW} and lab.processes.pid(DEDICATED) is not None


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_a_lost_source_is_left(policy: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Broker and worker are killed under load: nobody skips, and the process ends before the target opens."""
    state = fresh_lab(policy, airflow=False, dedicated=True)
    with lost_scene(state, tmp_path, rate=RATE) as scene, StopServer(scene.lab) as hook:
        lose_source(scene)
        assert scene.lab.processes.pid(DEDICATED) is not None, (
            "MirrorMaker 2 died with the source: nothing is left to be stopped"
        )
        running: list[int] = []
        scene.at["open_target"] = lambda: running.append(hook.running(FLOW))
        evidence = scene.completed(scene.run())
        stopped = figures_of(evidence, "stop_mirror_maker")
        print(
            f"{policy} naming: {stopped['states']}, re-reads {evidence['rereads']}, seconds {evidence['seconds']}",
            flush=True,
        )
        verdict = scene.checked(evidence)
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert verdict.figures["positions"] > 0 and verdict.figures["acknowledged_by_load"] > RATE
    assert verdict.figures["new_records_consumed"] > 0
    assert set(hook.asked) == {FLOW} and stopped["asked"] and set(stopped["states"]) == {FLOW}
    assert running == [0], "positions were committed while the process still ran"
    assert evidence["boundary"], "nothing shows that the target stood still"


def test_a_hook_that_only_says_so_is_found_out(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """The process goes on mirroring though its hook says that none runs: nobody is moved."""
    state = fresh_lab("identity", airflow=False, dedicated=True)
    with lost_scene(state, tmp_path, rate=RATE, clients=False) as scene, StopServer(scene.lab, lies=True) as hook:
        quicken(scene.lab, stop_seconds=STOP_SECONDS)
        scene.put_under_load()
        scene.signal_source(signal.SIGSTOP)
        scene.at["stop_mirror_maker"] = lambda: come_back_unwatched(scene)
        evidence = scene.driver.whole(scene.run())
        why = f"{evidence['outcome']} at {evidence['failing_step']}: {evidence['reason_for_outcome']}"
        print(why, flush=True)
        assert scene.lab.processes.pid(DEDICATED) is not None and hook.asked == [FLOW]
        assert (evidence["outcome"], evidence["failing_step"]) == ("returned", "stop_mirror_maker"), why
        assert "log ends of the target still move" in why
        assert json.loads(scene.lab.routing.read_text())["cluster"] == SOURCE
    # It cannot be told to go on, either: a person has to start what the hook has ended.
    assert WITHOUT_REST in figures_of(evidence, "return_to_source")["replication_left_stopped"]


def test_a_diagnosis_tells_faults_apart(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A healthy process has no finding; a topic that it may not see, its end and a silent hook are named."""
    off = ("group_sync_off",)
    with (
        checked_site(tmp_path_factory, "identity", limits=LIMITS, dedicated=True) as checked,
        stepping(checked.lab, tmp_path_factory.mktemp("steps")) as driver,
    ):
        site = DiagnosedSite(checked, driver)
        with StopServer(checked.lab) as hook:
            for topic in (BUSY, IDLE):
                checked.write(topic, 6)
            until(lambda: checked.has_copies(IDLE, BUSY), "the topics to be on the target", 90.0)
            checked.commit(GROUP, BUSY, checked.ends[BUSY])
            site.finds(choices=off)
            with hidden_topic(site):
                site.finds("topic_hidden", choices=off)
            site.finds(choices=off)
            hook.end()
            site.finds("connector_stopped", choices=off)
        site.finds("worker_silent")


def lose_source(scene: LostScene) -> None:
    """Topics, groups, clients and load, seen by the recorder; then the source's broker and worker are dead."""
    for dag_id in (always_on.RECORDER, always_on.WATCHER):
        always_on.start(scene.lab, dag_id)
    scene.rehearsal.seed_topics()
    scene.rehearsal.start_clients()
    scene.rehearsal.lose_source(Accident(after=3.0))


def come_back_unwatched(scene: LostScene) -> None:
    """The frozen source goes on, nobody fences it, and what its producers write is mirrored."""
    always_on.stop(scene.lab, always_on.WATCHER)
    mirrored = scene.rehearsal.mirrored_counter()
    before = mirrored()
    scene.signal_source(signal.SIGCONT)
    until(lambda: mirrored() > before, "records of the source that is back, mirrored", 60.0, pause=0.05)
