"""MirrorMaker 2 comes back with the old source, in either direction: stopped before it copies a record."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from lab.checker.readers import ClusterReader
from lab.environment.connect import call_worker, connector_name
from lab.rehearsal.planned import SOURCE, TARGET
from lab.workload.ground_truth import Acknowledgement
from tests.faults.source.test_source_frozen import Thaw
from tests.faults.support.lost_scene import LostScene, lost_scene
from tests.faults.support.scene import until

#: The target is open by then, and its clients write.
THAWED_BEFORE = "verify_clients"
#: The watcher looks once a second at the worker beside the target.
STOPPED_AGAIN_SECONDS = 5.0
#: Within that MirrorMaker 2 would have copied much: it polls without a pause.
COPIES_WITHIN_SECONDS = 10.0


def asked(scene: LostScene, beside: str, method: str, what: str) -> requests.Response | None:
    """What a worker answers about a connector; None where it does not, or not yet."""
    try:
        answer = call_worker(scene.lab, beside, method, f"/connectors/{what}")
    except requests.RequestException:
        return None
    return answer if answer.ok else None


def resume(scene: LostScene, beside: str, source: str, target: str) -> None:
    """Somebody has a flow's source connector run again."""
    until(
        lambda: asked(scene, beside, "PUT", f"{connector_name(source, target, 'source')}/resume") is not None,
        f"{source}->{target} to be resumed",
    )


def status(scene: LostScene, beside: str, source: str, target: str) -> dict[str, Any]:
    """How a flow's source connector stands; empty where its worker does not say, since it is just coming back."""
    answer = asked(scene, beside, "GET", f"{connector_name(source, target, 'source')}/status")
    return answer.json() if answer is not None else {}


def stands(told: dict[str, Any]) -> bool:
    """Whether a connector is STOPPED without tasks."""
    return bool(told) and told["connector"]["state"] == "STOPPED" and not told["tasks"]


def copied(scene: LostScene, thaw: Thaw, evidence: dict[str, Any], told: list[Acknowledgement], into: str) -> list[str]:
    """Unacknowledged copies of the other cluster's records in one log since the freeze, or the boundary."""
    status, places = scene.lab.status(), sorted(thaw.ends)
    # Clients from before the thaw still have the leaders' older epoch.
    source, target = (ClusterReader(alias, status).read(places, "read_uncommitted") for alias in (SOURCE, TARGET))
    new = {place: [held for held in source[place] if held.offset >= thaw.ends[place]] for place in places}
    if into == TARGET:
        # A producer that was not told may have written once more what had been mirrored.
        older = {held.digest for place in places for held in source[place] if held.offset < thaw.ends[place]}
        since = {held.digest for log in new.values() for held in log} - older
        stood = {(row["topic"], row["partition"]): row["offset"] for row in evidence["boundary"]}
        return [
            f"{place} offset {held.offset}"
            for place in places
            for held in target[place]
            if held.offset >= stood.get(place, 0) and held.digest in since
        ]
    theirs, written = (
        {held.digest for log in target.values() for held in log},
        {(one.topic, one.partition, one.offset) for one in told},
    )
    return [
        f"{place} offset {held.offset}"
        for place in places
        for held in new[place]
        if held.digest in theirs and (*place, held.offset) not in written
    ]


@pytest.mark.parametrize("direction", ["back", "forward"])
def test_nothing_is_copied(direction: str, fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """`back`: it freezes and thaws with the old source. `forward`: it is resumed while the source is dead."""
    with lost_scene(fresh_lab("identity", airflow=False), tmp_path) as scene:
        scene.put_under_load()
        back = direction == "back"
        thaw = Thaw(scene, (lambda: resume(scene, SOURCE, TARGET, SOURCE)) if back else (lambda: None))

        def comes_back() -> None:
            if not back:
                resume(scene, TARGET, SOURCE, TARGET)
                time.sleep(STOPPED_AGAIN_SECONDS)
            thaw()

        scene.at[THAWED_BEFORE] = comes_back
        run = scene.run()
        evidence = scene.completed(run)
        fence = scene.fence(run, evidence)
        print(fence, flush=True)
        flow = (SOURCE, TARGET, SOURCE) if back else (TARGET, SOURCE, TARGET)
        until(
            lambda: stands(status(scene, *flow)),
            lambda: f"{flow[1]}->{flow[2]} to be stopped, and is {status(scene, *flow)}",
            90.0,
        )
        time.sleep(COPIES_WITHIN_SECONDS)
        unsettled = scene.rehearsal.settle()
        written = list(scene.rehearsal.make_ledger().periods[0].acknowledged.values())
        assert [one for one in written if one.at > thaw.at and one.topic in scene.rehearsal.load.topics], (
            "old producers wrote nothing to the thawed source: the case shows nothing"
        )
        found = copied(scene, thaw, evidence, written, SOURCE if back else TARGET)
        assert found == [], f"{len(found)} records were copied: {found[:5]}; the watcher said: {scene.watcher_said()}"
        assert unsettled == []
