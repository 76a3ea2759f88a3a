"""Print progress lines with times; wait until a condition holds, a process has ended, or a deadline passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lab.errors import LabError

Found = TypeVar("Found")


class ProgressLines:
    """Prints progress lines, each with the seconds that have passed since this object was created."""

    def __init__(self, quiet: bool = False) -> None:
        """Start the clock; with `quiet` no line is printed."""
        self._start = time.monotonic()
        self._quiet = quiet

    @property
    def seconds(self) -> float:
        """Seconds that have passed since this object was created."""
        return time.monotonic() - self._start

    def say(self, text: str) -> None:
        """Print one line at once, also if the output is a pipe."""
        if not self._quiet:
            # One write per line: the lab's parts start in parallel, and their lines must not mix.
            print(f"{self.seconds:6.1f} s  {text}\n", end="", flush=True)


def wait_until(
    check: Callable[[], Found | None],
    what: str,
    seconds: float,
    *,
    still_possible: Callable[[], None] = lambda: None,
    pause: float = 0.1,
) -> Found:
    """Call ``check`` until its result is a true value; return this result.

    Args:
        check: returns the result, or a false value; an exception other than LabError counts as false.
        what: what the caller waits for, for the error's text.
        seconds: seconds until the deadline.
        still_possible: raises LabError if waiting is pointless, for example because the process has ended.
        pause: seconds between two calls of ``check``.

    Raises:
        LabError: the deadline has passed; the text has the last exception of ``check``.
    """
    deadline, last = time.monotonic() + seconds, "none"
    while True:
        try:
            result = check()
            if result:
                return result
        except LabError:
            raise
        except Exception as error:  # noqa: BLE001 (the service is still starting: any error means "not yet")
            last = f"{type(error).__name__}: {error}"
        still_possible()
        if time.monotonic() > deadline:
            raise LabError(f"waited {seconds:.0f} s in vain for {what}; the last error was: {last}")
        time.sleep(pause)
