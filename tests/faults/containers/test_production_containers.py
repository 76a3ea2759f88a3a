"""The whole stack of docker-compose.yaml: workers that share nothing, clocks apart, a store far away that fails calls.

Needs Docker's engine and Compose 2, a C compiler, 17 GB, and an hour and a half on two cores once the images are built.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.checker import CheckResult
from lab.containers.compose import ContainerLab, Stack
from lab.containers.round_trips import ContainerRoundTrips
from lab.containers.stack import ROOT, TASK_WORKERS
from lab.environment.airflow_api import AirflowClient
from lab.environment.production.profile import PRODUCTION
from lab.environment.progress import wait_until
from lab.errors import LabError
from lab.install.jars import PROJECT
from lab.rehearsal.round_trip import Leaving, Returning
from lab.rehearsal.run import procedure_id
from lab.rehearsal.unplanned import Accident

NAME = "switchback-disturbed"
OWN = Path(__file__).parent / "disturbed"
RATE = 50
WORKER_SECONDS = 240.0
#: A procedure takes half an hour where two cores carry the whole stack.
RUN_SECONDS = 3600


def disturbed_stack(folder: Path) -> Stack:
    """A stack whose store, workers and brokers are disturbed as the folder `disturbed` says."""
    (disturbing := folder / "disturbed").mkdir()
    shutil.copy(PROJECT / "tests" / "support" / "stores" / "disturbing_proxy.py", disturbing)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(disturbing / "clock.so"), str(OWN / "clock.c")], check=True)
    laid_over = (str(OWN / "docker-compose.yaml"),)
    return Stack.in_folder(folder, PRODUCTION, laid_over, DISTURBED=str(disturbing))


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerRoundTrips]:
    """Round trips on a stack that is up; it is taken down after the last test."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: it is in Debian's package gcc")
    # Other users' containers read what is mounted.
    folder = tmp_path_factory.mktemp("containers") / NAME
    folder.mkdir()
    for parent in (folder, *folder.parents[:3]):
        parent.chmod(0o755)
    stack = disturbed_stack(folder)
    try:
        stack.require_docker()
    except LabError as error:
        pytest.skip(str(error))
    stack.down()
    try:
        stack.build()
        began = time.monotonic()
        stack.up()
        print(f"the start took {time.monotonic() - began:.0f} s")
        ContainerLab(folder, stack).adopt()
        made = ContainerRoundTrips(folder, folder / "rehearsal", 7, RATE, scale=0.02, groups=8)
        made.seconds = RUN_SECONDS
        made.seed_topics()
        yield made
        made.stop()
    except BaseException:
        stack.keep_logs(Path("evidence") / f"containers-{time.strftime('%Y%m%dT%H%M%S')}")
        raise
    finally:
        stack.down()


def printed(stack: Stack, service: str, *command: str) -> str:
    """What a command prints in a service's container."""
    return stack._compose("exec", "--no-TTY", service, *command).strip()


def test_workers_share_neither_user_nor_clock(rehearsal: ContainerRoundTrips) -> None:
    """Before anything runs: the stack is as disturbed as the other tests need it."""
    stack = rehearsal.lab.stack
    assert [printed(stack, worker, "id", "-u") for worker in TASK_WORKERS] == ["1001", "1002"]
    now = ["python", "-c", "import time; print(time.time())"]
    one, other = (float(printed(stack, worker, *now)) for worker in TASK_WORKERS)
    assert 55 < other - one < 90


def test_a_folder_that_only_one_worker_has_is_refused_before_the_fence(rehearsal: ContainerRoundTrips) -> None:
    """Without a store each worker writes evidence to its own volume: check_readiness says so; nothing is touched."""
    stack = rehearsal.lab.stack
    own = Path(stack.settings["SWITCHBACK_SETTINGS"])
    topology = yaml.safe_load(stack.read_file(TASK_WORKERS[0], ROOT / "topology.yaml"))
    assert topology.pop("store")
    (own / "topology.yaml").write_text(yaml.safe_dump(topology))
    (own / "airflow.env").write_text("KAFKA_DR_TOPOLOGY=/etc/switchback/topology.yaml\n")
    restart_workers(stack)
    try:
        conf = {"source": "primary", "target": "standby", "reason": "a folder of one worker"}
        api = AirflowClient.of(rehearsal.lab, "operator")
        run_id = api.trigger("planned_failover", conf)
        ends_at = time.monotonic() + 900
        while api.run("planned_failover", run_id)["state"] in ("queued", "running") and time.monotonic() < ends_at:
            time.sleep(2)
        states = {task["task_id"]: task["state"] for task in api.tasks("planned_failover", run_id)}
        print(states)
        found = [evidence_of(stack, worker, run_id) for worker in TASK_WORKERS]
    finally:
        (own / "airflow.env").unlink()
        restart_workers(stack)
    (evidence,) = [one for one in found if one]
    assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "check_readiness")
    assert "files_are_shared" in json.dumps(evidence) and states["fence_producers"] != "success"


def restart_workers(stack: Stack) -> None:
    """Start both Celery workers anew, with the settings that they now have, and wait until they answer."""
    stack._compose("restart", *TASK_WORKERS, seconds=WORKER_SECONDS)
    wait_until(
        lambda: all(stack.states()[worker] == "healthy" for worker in TASK_WORKERS),
        "both workers to answer",
        WORKER_SECONDS,
        pause=1.0,
    )


def evidence_of(stack: Stack, worker: str, run_id: str) -> dict[str, Any]:
    """What the worker's own folder has as the run's evidence; {} if it has none."""
    path = ROOT / "evidence" / procedure_id("planned_failover", run_id) / "evidence.json"
    text = printed(stack, worker, "sh", "-c", f"cat '{path}' 2>/dev/null || true")
    return json.loads(text or "{}")


def judged(rehearsal: ContainerRoundTrips, move: Callable[[], CheckResult]) -> None:
    """A procedure leads to no finding by record ids, and the store did fail calls meanwhile."""
    failed, began = failed_calls(rehearsal.lab.stack), time.monotonic()
    verdict = move()
    print(f"{time.monotonic() - began:.0f} s", verdict.figures, flush=True)
    assert verdict.passed, verdict.lines(limit=20)
    assert failed_calls(rehearsal.lab.stack) > failed


def failed_calls(stack: Stack) -> int:
    """How many of the store's calls the proxy has failed."""
    log = stack._compose("logs", "--no-log-prefix", "store-link")
    return max([0, *(int(number) for number in re.findall(r"(\d+) of \d+ requests were failed", log))])


def test_a_killed_site_and_the_failback_are_judged(rehearsal: ContainerRoundTrips) -> None:
    """An unplanned failover; then topics are made anew, and stranded records written again."""
    judged(rehearsal, lambda: rehearsal.leave(Leaving(Accident(after=1.0), more=3, stranded=5)))
    judged(rehearsal, lambda: rehearsal.come_back(Returning("recreate", {".*": "replay"}, more=3, born=True)))


def test_a_planned_failover_is_judged(rehearsal: ContainerRoundTrips) -> None:
    """Clients are at primary, whether the other procedures ran before or not."""
    judged(rehearsal, lambda: rehearsal.leave(Leaving(more=3)))


def test_the_store_failed_calls_all_along(rehearsal: ContainerRoundTrips) -> None:
    """After the procedures: more than a few."""
    assert failed_calls(rehearsal.lab.stack) > 10
