"""The journal's server 10 minutes ahead, the worker 10 minutes behind, Airflow's API between them: real processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.vocabulary import APPROVE

from lab.install.setup import NO_POSTGRESQL, faketime_library, postgresql_programs
from tests.support.json_server import JsonHandler, served
from tests.support.postgresql import ROOT, clock_of, running_server

pytestmark = [
    pytest.mark.skipif(postgresql_programs() is None, reason=NO_POSTGRESQL),
    pytest.mark.skipif(faketime_library() is None, reason="libfaketime is not installed here"),
]
TEN_MINUTES = 600

#: The worker: a fence of 4 s, a cool-down of 60 s, approvals; it says how its own clock stands.
WORKER = """
import json, sys, threading, time
from types import SimpleNamespace
from kafka_dr.config.settings import Request
from kafka_dr.config.topology import Approvers
from kafka_dr.errors import DeadlinePassed, NotReady
from kafka_dr.hooks.airflow_api import AirflowApi
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.approvals import Approvals
from kafka_dr.procedure.progress import Progress
from kafka_dr.steps.base import bounded_by_fence
# libfaketime makes time.sleep fail while it leaves the monotonic clock alone.
pause = threading.Event().wait
url, api, told = sys.argv[1], sys.argv[2], {"clock": time.time()}
journal = Journal(url)
epoch = journal.take_lease("a|b", "p")
request = Request(source="a", target="b", reason="r", deadlines={"max_fence_seconds": 4.0})
run = SimpleNamespace(request=request, progress=Progress(journal, "p", request), id="p", journal=journal)
entry = journal.append("p", "fence_producers", "intent", epoch, {})
told["entry"] = entry.at.timestamp()
began = time.monotonic()
try:
    with bounded_by_fence(run, print):
        pause(60)
except DeadlinePassed:
    told["struck_after"] = time.monotonic() - began
try:
    run.progress.check_fence_clock()
except DeadlinePassed:
    told["refused"] = True
journal.release_lease("a|b", "p", epoch, "returned")
try:
    journal.take_lease("a|b", "q", cool_down_seconds=60.0)
except NotReady as error:
    told["cool_down"] = error.seen
pause(2)
told["taken"] = journal.take_lease("a|b", "q", cool_down_seconds=1.5)
systems = SimpleNamespace(api=AirflowApi(api, "u", "p"), topology=SimpleNamespace(approvers=Approvers()))
approvals = Approvals("d", "r", systems, run.progress, 300.0)
for gate in ("new", "old"):
    try:
        told[gate] = approvals.require(gate, "digest").by
    except Exception as error:
        told[gate] = str(error)
print(json.dumps(told))
"""


class AirflowServer(JsonHandler):
    """Airflow's API, whose gates were answered just now, or 400 s ago."""

    def do_POST(self) -> None:  # noqa: N802 (http.server's name)
        self.answer(201, {"access_token": "t"})

    def do_GET(self) -> None:  # noqa: N802 (http.server's name)
        if "hitlDetails" not in self.path:
            self.answer(200, {"state": "running", "triggering_user_name": "alice", "triggered_by": "ui"})
            return
        age = timedelta(seconds=400 if "/old/" in self.path else 2)
        bob = {"id": "bob", "name": "bob"}
        self.answer(
            200,
            {"subject": "Plan digest", "options": [APPROVE], "chosen_options": [APPROVE], "responded_by_user": bob,
             "responded_at": (datetime.now(UTC) - age).isoformat()},
        )  # fmt: skip


@pytest.fixture(scope="module", params=[TEN_MINUTES, -TEN_MINUTES], ids=["ahead", "behind"])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the worker told; the server's clock is off by ten minutes, and the worker's as much the other way."""
    script: Path = tmp_path_factory.mktemp("worker") / "worker.py"
    script.write_text(WORKER)
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("plugins", "spark", "."))
    with running_server(ahead=request.param) as server, served(AirflowServer) as api:
        done = subprocess.run(
            [sys.executable, script, server.url(), api], capture_output=True, text=True, timeout=120, check=False,
            env=os.environ | clock_of(-request.param) | {"PYTHONPATH": paths},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    yield {**json.loads(done.stdout), "ahead": request.param}


def test_the_clocks_are_apart(told: dict[str, Any]) -> None:
    """Otherwise nothing was shown: 20 minutes lie between worker and server."""
    assert abs(told["entry"] - told["clock"] - 2 * told["ahead"]) < 60
    assert abs(told["clock"] - time.time() + told["ahead"]) < 120


def test_the_fence_ends_after_its_seconds(told: dict[str, Any]) -> None:
    """Not at once, not 20 minutes later; and a later process of the procedure is refused."""
    assert 2 < told["struck_after"] < 20 and told["refused"] is True


def test_the_cool_down_ends_after_its_seconds(told: dict[str, Any]) -> None:
    """One of 60 s refuses, one that is over does not."""
    assert "in 60 s" in told["cool_down"] or "in 59 s" in told["cool_down"]
    assert told["taken"] == 2


def test_an_approval_is_as_old_as_the_api_says(told: dict[str, Any]) -> None:
    """By the clock of Airflow's API server, which recorded it; its header Date has whole seconds."""
    assert told["new"] == "bob"
    assert re.search(r"given (399|40\d) s ago, and an answer is valid for 300 s", told["old"])
