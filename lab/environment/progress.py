"""Progress lines with times, and waits that end: by success, by a dead process, or by their deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lab.errors import LabError

Found = TypeVar("Found")


class ProgressLines:
    """Prints what is being done, each line with the seconds since the start."""

    def __init__(self, quiet: bool = False) -> None:
        """Start the clock; a quiet one prints nothing."""
        self._start = time.monotonic()
        self._quiet = quiet

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def say(self, text: str) -> None:
        """Print one line at once, also into a pipe."""
        if not self._quiet:
            # One write: parts come up side by side, and their lines must not mix.
            print(f"{self.seconds:6.1f} s  {text}\n", end="", flush=True)


def wait_until(
    check: Callable[[], Found | None],
    what: str,
    seconds: float,
    *,
    still_possible: Callable[[], None] = lambda: None,
    pause: float = 0.1,
) -> Found:
    """Call ``check`` until it answers something true.

    Args:
        check: answers the thing waited for, or something false; an exception other than LabError means "not yet".
        what: names the thing, for the error.
        seconds: deadline.
        still_possible: raises LabError when waiting has become pointless, such as when the process has died.
        pause: seconds between two calls.

    Raises:
        LabError: the deadline passed; the text carries the last exception seen.
    """
    deadline, last = time.monotonic() + seconds, "no answer yet"
    while True:
        try:
            found = check()
            if found:
                return found
        except LabError:
            raise
        except Exception as error:  # noqa: BLE001 (the service is still starting: any refusal means "not yet")
            last = f"{type(error).__name__}: {error}"
        still_possible()
        if time.monotonic() > deadline:
            raise LabError(f"waited {seconds:.0f} s for {what}, last seen: {last}")
        time.sleep(pause)
