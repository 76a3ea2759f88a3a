"""The stack of docker-compose.yaml: every container killed, the scheduler killed in a run, secrets looked for.

Needs Docker's engine and Compose 2, and takes ten minutes once the images are built.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.containers.compose import ContainerLab, Stack
from lab.containers.round_trips import ContainerRoundTrips
from lab.containers.stack import ROOT
from lab.environment.airflow_api import AirflowClient
from lab.environment.progress import wait_until
from lab.errors import LabError
from lab.rehearsal.round_trip import Leaving, Returning

PROJECT = "switchback-faults"
BACK_SECONDS = 240
#: Of each kind of container one that lasts.
KINDS = (
    "postgres", "kafka-standby", "connect-standby", "airflow-api-server", "airflow-scheduler", "airflow-dag-processor",
    "airflow-triggerer", "spark-master", "spark-worker-1", "demo-clients",
)  # fmt: skip


def docker(*arguments: str) -> str:
    """What a docker command prints."""
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout


def of_project(kind: str) -> list[str]:
    """Ids of the project's containers, volumes or networks."""
    command = {"container": ["ps", "--all"], "volume": ["volume", "ls"], "network": ["network", "ls"]}[kind]
    return docker(*command, "--quiet", "--filter", f"label=com.docker.compose.project={PROJECT}").split()


def inspected(service: str) -> dict[str, Any]:
    """What Docker knows of a service's container."""
    found: list[dict[str, Any]] = json.loads(docker("inspect", f"{PROJECT}-{service}-1"))
    return found[0]


def kill_from_outside(service: str) -> None:
    """Kill the container's first process as the kernel would: Docker's restart policy applies."""
    os.kill(inspected(service)["State"]["Pid"], signal.SIGKILL)


def back_since(service: str, before: str) -> bool:
    """Whether a container has been started anew and is healthy."""
    state = inspected(service)["State"]
    return state["StartedAt"] != before and state.get("Health", {}).get("Status") == "healthy"


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerRoundTrips]:
    """Round trips on a stack that is up; nothing of it is left after the last test."""
    folder = tmp_path_factory.mktemp("containers") / PROJECT
    folder.mkdir()
    stack = Stack.in_folder(folder)
    try:
        stack.require_docker()
    except LabError as error:
        pytest.skip(str(error))
    stack.down()
    try:
        stack.build()
        stack.up()
        ContainerLab(folder, stack).adopt()
        made = ContainerRoundTrips(folder, folder / "rehearsal", 7, 500, scale=0.1, groups=8)
        made.seed_topics()
        yield made
        made.stop()
    except BaseException:
        stack.keep_logs(Path("evidence") / f"containers-{time.strftime('%Y%m%dT%H%M%S')}")
        raise
    finally:
        stack.down()
    assert [of_project(kind) for kind in ("container", "volume", "network")] == [[], [], []]


def test_every_kind_of_container_comes_back(rehearsal: ContainerRoundTrips) -> None:
    """Killed while nothing runs, each is started again and healthy; then clients move, checked."""
    started = {service: inspected(service)["State"]["StartedAt"] for service in KINDS}
    for service in KINDS:
        kill_from_outside(service)
    for service in KINDS:
        wait_until(
            lambda service=service: back_since(service, started[service]),  # type: ignore[misc]
            f"{service} to be healthy again",
            BACK_SECONDS,
            pause=1.0,
        )
    verdict = rehearsal.leave(Leaving(more=3))
    assert verdict.passed, verdict.lines(limit=20)


def test_the_scheduler_killed_in_translate_offsets(rehearsal: ContainerRoundTrips) -> None:
    """Tasks die with it; it comes back, and the run completes or returns, checked."""
    api, killed = AirflowClient.of(rehearsal.lab, "operator"), threading.Event()

    def kill_at_work() -> None:
        ends_at = time.monotonic() + 900
        while time.monotonic() < ends_at and not killed.is_set():
            listed = api._runs.get_dag_runs_without_preload_content
            for run in api._all("dag_runs", listed, "failback", state=["running"]):
                tasks = {task["task_id"]: task["state"] for task in api.tasks("failback", run["dag_run_id"])}
                if tasks.get("translate_offsets") == "running":
                    kill_from_outside("airflow-scheduler")
                    killed.set()
            time.sleep(0.2)

    thread = threading.Thread(target=kill_at_work, daemon=True)
    thread.start()
    verdict = rehearsal.come_back(Returning(more=3))
    thread.join(10)
    assert killed.is_set(), "translate_offsets was never seen at work"
    outcome = rehearsal.evidence()[1]["outcome"]
    assert outcome in ("completed", "returned"), outcome
    assert verdict.passed or outcome == "returned", verdict.lines(limit=20)


def test_no_secret_where_docker_shows_things(rehearsal: ContainerRoundTrips, tmp_path: Path) -> None:
    """Neither in the images' history, nor in what `docker inspect` prints, nor in a log."""
    record = rehearsal.lab.load()
    secrets = [*record.passwords.values(), *record.airflow_secrets.values()]
    secrets.append(rehearsal.lab.stack.read_file("postgres", ROOT / "lab" / "postgres" / "password"))
    images = set(docker("ps", "--all", "--format", "{{.Image}}", "--filter", f"name={PROJECT}").split())
    shown = [docker("history", "--no-trunc", image) for image in sorted(images)]
    shown += [docker("inspect", name) for name in [*of_project("container"), *sorted(images)]]
    rehearsal.lab.stack.keep_logs(tmp_path)
    logs = {str(path): path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()}
    assert len(logs) > 15 and any("Kafka Server started" in text for text in logs.values())
    told = {name for name, text in logs.items() for secret in secrets if secret in text}
    assert (told, [text[:100] for text in shown for secret in secrets if secret in text]) == (set(), [])


def test_a_second_start_goes_on_from_the_volumes(rehearsal: ContainerRoundTrips) -> None:
    """Containers are removed, volumes stay: clusters, journal and clients are as before."""
    stack = rehearsal.lab.stack
    route = json.loads(stack.read_file("demo-clients", ROOT / "clients" / "routing.json"))
    stack._compose("down", "--timeout", "5", seconds=BACK_SECONDS)
    began = time.monotonic()
    stack.up()
    print(f"the second start took {time.monotonic() - began:.0f} s")
    assert json.loads(stack.read_file("demo-clients", ROOT / "clients" / "routing.json")) == route
