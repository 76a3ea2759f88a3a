"""Run calls concurrently, or on a daemon thread for which no caller has to wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from threading import BoundedSemaphore, Thread
from typing import Any, TypeVar

T = TypeVar("T")
_AT_ONCE = 8


@contextmanager
def run_concurrently() -> Iterator[Callable[..., Future[Any]]]:
    """Yield a function that starts a call on a thread and returns its future; the block waits for all calls.

    `result()` of a future returns the call's result or raises its error. A deadline that interrupts the block, and then
    the wait for the calls, leaves the calls behind; the end of the process does not wait for them either.
    """
    slots, started = BoundedSemaphore(_AT_ONCE), []

    def start(call: Callable[..., Any], *args: Any, **named: Any) -> Future[Any]:
        def run_in_slot() -> Any:
            with slots:
                return call(*args, **named)

        started.append(run_in_background(run_in_slot))
        return started[-1]

    try:
        yield start
    finally:
        wait(started)


def run_in_background(call: Callable[[], T]) -> Future[T]:
    """Run a call on a daemon thread, which the end of the process does not wait for; return the call's future."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 (the future's result re-raises any error.)
            future.set_exception(error)

    Thread(target=run, name="background", daemon=True).start()
    return future
