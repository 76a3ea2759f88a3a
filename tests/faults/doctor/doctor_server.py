"""Runs `switchback doctor --here` in forks of one process that has all modules: a run takes seconds less."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.faults.support.scene import until
from tests.faults.support.stepping import ROOT

#: How long one examination may take, on a machine that is busy with much else.
_SECONDS = 1500.0
_COMMAND = [sys.executable, "-m", "tests.faults.doctor.doctor_server"]


class DoctorServer:
    """Starts examinations, any number at once."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as out:
            self._server = subprocess.Popen(
                _COMMAND, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stderr=out, text=True
            )

    def examine(self, environment: dict[str, str], *options: str) -> dict[str, Any]:
        """Examine under an environment; return the JSON that the command prints, with its exit code."""
        with tempfile.TemporaryDirectory() as folder:
            out, ended = Path(folder) / "out", Path(folder) / "ended"
            asked = {"environment": environment, "options": ["--here", "--json", *options], "log": str(self._log)}
            self._server.stdin.write(json.dumps(asked | {"out": str(out), "ended": str(ended)}) + "\n")
            self._server.stdin.flush()
            until(ended.exists, "the examination to end", _SECONDS)
            return {**json.loads(out.read_text()), "code": int(ended.read_text())}

    def close(self) -> None:
        """End the server."""
        self._server.stdin.close()
        self._server.wait(30)


def examine_once(environment: dict[str, str], log: Path, *options: str) -> dict[str, Any]:
    """Examine in a process that begins from nothing, for an environment that counts when a process starts."""
    command = [sys.executable, "-m", "kafka_dr.commands.doctor", "--here", "--json", *options]
    with log.open("ab") as err:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=err, text=True, check=False)
    return {**json.loads(done.stdout), "code": done.returncode}


def _serve() -> None:
    import gc

    from kafka_dr.commands import doctor  # noqa: F401 (each fork would import it again)

    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if not os.fork():
            _run_in_fork(json.loads(line))


def _run_in_fork(asked: dict[str, Any]) -> None:
    import traceback

    from kafka_dr.commands import doctor

    # Programs that the command starts are waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(asked["environment"])
    for descriptor, path in ((1, asked["out"]), (2, asked["log"])):
        with open(path, "ab") as file:  # noqa: PTH123
            os.dup2(file.fileno(), descriptor)
    code = 3
    try:
        code = doctor.main(asked["options"])
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    (ended := Path(asked["ended"] + ".writing")).write_text(str(code))
    ended.rename(asked["ended"])
    os._exit(code)


if __name__ == "__main__":
    _serve()
