"""Interrupts of a process's main thread at a deadline.

Invariants
1. No interrupt strikes within a region that holds interrupts back, such as an undo or a write to the journal; the
   interrupt strikes when the region is left.
2. A main thread that does not leave its block, because code outside of Python keeps Python's signal handlers from
   running, does not outlast the deadline by much: a second thread ends the process, but never during such a region of
   any thread.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: How long after the deadline, or after the end of the last region that is held back, the block may still run. Python
#: code takes the signal at once, and again every second.
HANG_SECONDS = 10.0
#: Exit status of a process that was ended because its main thread hung.
HUNG = 70
#: Interval of signals: a library may swallow the first one.
_AGAIN_SECONDS = 1.0
_LOOK_SECONDS = 0.2
#: Thread -> whether each of its open regions holds interrupts back, innermost last.
_regions: dict[int, list[bool]] = {}


class _Interrupt:
    """What strikes the main thread; `due` after a signal that a region has held back."""

    def __init__(self, error: Callable[[], Exception]) -> None:
        self._error, self.due = error, False

    def strike(self, *_: object) -> None:
        """Handle the signal: raise the error, or remember it while a region holds it back."""
        self.due = _is_held(threading.get_ident())
        if not self.due:
            raise self._error()


_current: _Interrupt | None = None


@contextmanager
def hold_back() -> Iterator[None]:
    """Let no interrupt strike within the block, which must end by itself; one that is due strikes right after it."""
    with _region(held=True):
        yield
    _strike_if_due()


@contextmanager
def let_through() -> Iterator[None]:
    """Let interrupts strike within the block, although a region around the block holds them back."""
    with _region(held=False):
        _strike_if_due()
        yield


@contextmanager
def interrupted_after(
    seconds: float, error: Callable[[], Exception], last_words: Callable[[], object]
) -> Iterator[None]:
    """Raise an error within the block after so many seconds, and again every second until the block is left.

    Python delivers signals to the main thread only: in another thread nothing strikes, and nothing is ended.

    Args:
        error: makes the error.
        last_words: called on another thread before a process is ended whose main thread hangs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    left = threading.Event()
    # Nothing strikes while the handler is set up, and while it is put back.
    with _region(held=True):
        previous = _install(_Interrupt(error), seconds)
        watchdog = threading.Thread(target=_end_if_hung, args=(left, seconds, last_words), name="watchdog", daemon=True)
        watchdog.start()
        try:
            with let_through():
                yield
        finally:
            left.set()
            _uninstall(previous)


def _install(interrupt: _Interrupt, seconds: float) -> object:
    global _current  # noqa: PLW0603 (a process has one main thread, and one timer)
    _current = interrupt
    previous = signal.signal(signal.SIGALRM, interrupt.strike)
    signal.setitimer(signal.ITIMER_REAL, max(0.01, seconds), _AGAIN_SECONDS)
    return previous


def _uninstall(previous: object) -> None:
    global _current  # noqa: PLW0603 (likewise)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous)  # type: ignore[arg-type]  # what signal.signal returned
    _current = None


@contextmanager
def _region(held: bool) -> Iterator[None]:
    thread = threading.get_ident()
    regions = _regions.setdefault(thread, [])
    depth = len(regions)
    regions.append(held)
    try:
        yield
    finally:
        # Not `pop`: an interrupt may have kept an inner region from being removed.
        del regions[depth:]
        if not depth:
            _regions.pop(thread, None)


def _is_held(thread: int) -> bool:
    return _regions.get(thread, [False])[-1:] == [True]


def _strike_if_due() -> None:
    interrupt = _current
    if interrupt and interrupt.due and threading.current_thread() is threading.main_thread():
        interrupt.strike()


def _end_if_hung(left: threading.Event, seconds: float, last_words: Callable[[], object]) -> None:
    """End the process if the block is not left in time; wait for the end of regions that hold interrupts back."""
    if left.wait(max(0.0, seconds)):
        return
    own = threading.Thread(target=last_words, name="last words", daemon=True)
    ends_at, told = time.monotonic() + HANG_SECONDS, False
    while not left.wait(_LOOK_SECONDS):
        if any(_is_held(thread) for thread in list(_regions) if thread != own.ident):
            ends_at = time.monotonic() + HANG_SECONDS
        elif time.monotonic() >= ends_at and not told:
            told, ends_at = True, time.monotonic() + HANG_SECONDS
            own.start()
        elif told and (not own.is_alive() or time.monotonic() >= ends_at):
            os._exit(HUNG)
