"""`make demo`, `demo-unplanned`, `demo-failback`, `compose-demo`: move clients, check, and save the evidence.

Environment: `APPROVE=ask` waits for a person at the gate; `TAMPER=position` or `TAMPER=record` falsifies the target
before the check, which must then fail and name the changed position or record. `PROFILE=production` with
`compose-demo` starts docker-compose.yaml alone, in place of its small form.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from lab.demo.containers import ContainersDemo
from lab.demo.demonstration import Choices, Demo
from lab.demo.failback import FailbackDemo
from lab.demo.guard import Guard, take_down
from lab.demo.lost_source import LostSourceDemo
from lab.demo.showing import make_console
from lab.environment.production.profile import SMALL
from lab.errors import LabError

DEMOS = {"planned": Demo, "unplanned": LostSourceDemo, "failback": FailbackDemo, "containers": ContainersDemo}


def run_demo(choices: Choices, kind: type[Demo] = Demo) -> int:
    """Run a demo in a temporary folder, and stop and remove its lab in any case; return the exit code.

    The code is 0 if the check passed, 1 after a failure, 2 if the check did not detect the tampering, 130 after Ctrl-C.

    Args:
        choices: the demo's options.
        kind: class of the demo to run.
    """
    console = make_console()
    state = Path(tempfile.mkdtemp(prefix="switchback-demo-"))
    guard, demo = Guard(state), kind(choices, state, console)
    try:
        return demo.run()
    except LabError as error:
        console.print(f"FAILED: {error}", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted; the lab is stopped and removed")
        return 130
    finally:
        # A second Ctrl-C must not leave parts of the lab running.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        try:
            demo.stop()
        finally:
            take_down(state)
            guard.dismiss()


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main(arguments: Sequence[str] = ()) -> int:
    """Run the demo that `arguments` name (default: `planned`); return the exit code.

    The code is 2, and nothing is started, for an invalid argument or environment variable.
    """
    name = arguments[0] if arguments else "planned"
    try:
        if name not in DEMOS or len(arguments) > 1:
            raise ValueError(  # noqa: TRY301 (wrong arguments and wrong settings are answered alike)
                f"{' '.join(arguments)!r} is unknown; give no argument or one of: {', '.join(DEMOS)}"
            )
        choices = Choices.read(os.environ)
        if choices.profile != SMALL and name != "containers":
            raise ValueError(  # noqa: TRY301 (as above)
                f"PROFILE={choices.profile} is for the demo in containers; unset PROFILE, or run: make compose-demo"
            )
    except ValueError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    return run_demo(choices, DEMOS[name])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
