"""A fence hook cuts a hanging source's power: nobody need watch, and the way back restores the power."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from lab.rehearsal.planned import SOURCE
from tests.faults.support import always_on
from tests.faults.support.lost_scene import LostScene, figures_of, lost_scene
from tests.faults.support.power_switch import BY, DETAIL, PowerSwitch, serving
from tests.faults.support.scene import until

ASKED_FOR = "The fence hook is asked to keep clients from "
USABLE_SECONDS = 90.0


@contextmanager
def hooked(state: Path, folder: Path) -> Iterator[tuple[LostScene, PowerSwitch]]:
    """A scene whose source hangs under load, a fence hook beside it, and no watcher."""
    with lost_scene(state, folder) as scene:
        switch = PowerSwitch(scene.lab, SOURCE)
        with serving(switch) as url:
            topology = yaml.safe_load(scene.lab.topology.read_text())
            scene.lab.topology.write_text(
                yaml.safe_dump(topology | {"fence_hook": {"connection": "fence_net"}}, sort_keys=False)
            )
            scene.driver.environment["AIRFLOW_CONN_FENCE_NET"] = json.dumps({"conn_type": "http", "host": url})
            scene.put_under_load()
            always_on.stop(scene.lab, always_on.WATCHER)
            scene.signal_source(signal.SIGSTOP)
            # It never acts again: the check takes what was committed before.
            scene.rehearsal.died_at = int(1000 * time.time())
            yield scene, switch


def test_a_source_that_hangs_is_fenced_by_the_hook(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """The approver sees who will fence, the evidence holds the hook's answer, and no write is acknowledged again."""
    with hooked(fresh_lab("identity", airflow=False), tmp_path) as (scene, switch):
        run = scene.run()
        evidence = scene.completed(run)
        fence = figures_of(evidence, "fence_source")
        print(fence, switch.asked, flush=True)
        assert ASKED_FOR in run.questions["approve_data_loss"]
        assert fence["fenced"] == "by hook" and evidence["fenced_at"] == fence["fenced_at"]
        assert fence["answer"] == {"fenced": True, "by": BY, "detail": json.dumps(DETAIL)}
        assert switch.asked == [("/fence", {"procedure_id": run.procedure_id, "cluster": SOURCE})]
        assert switch.state()["fenced"]
        verdict = scene.checked(evidence)
        assert verdict.passed, "\n".join(verdict.lines(limit=5))
        assert scene.watched(run) is None


def test_the_way_back_has_the_hook_let_clients_in_again(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Behind the fence the hook is asked to lift it, and old producers are acknowledged again."""
    with hooked(fresh_lab("default", airflow=False), tmp_path) as (scene, switch):
        run = scene.run()
        assert scene.driver.forward(run, until="fence_source"), run.texts
        assert switch.state()["fenced"]
        evidence = scene.give_back(run)
        assert evidence["outcome"] == "returned", evidence["reason_for_outcome"]
        found = figures_of(evidence, "return_to_source")["fence_hook"]
        assert found == {"fenced": False, "by": "nothing", "detail": json.dumps(DETAIL)}
        # A return that waits for brokers asks again.
        assert switch.asked[0][0] == "/fence" and {path for path, _ in switch.asked[1:]} == {"/unfence"}
        load = scene.rehearsal.load
        time.sleep(1.0)
        before = load.counts()["acknowledged"]
        until(
            lambda: load.counts()["acknowledged"] > before + 1_000,
            f"records acknowledged by {SOURCE} again",
            USABLE_SECONDS,
        )
        until(switch.is_up_again, f"everything of {SOURCE} to be up again", USABLE_SECONDS)
