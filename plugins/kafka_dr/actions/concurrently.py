"""Run calls concurrently, or on a daemon thread for which no caller has to wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def run_concurrently() -> Iterator[Callable[..., Future[Any]]]:
    """Yield a function that starts a call on a thread and returns its future; the block waits for all calls.

    `result()` of a future returns the call's result or raises its error.
    """
    with ThreadPoolExecutor(8, thread_name_prefix="observe") as pool:
        yield pool.submit


def run_in_background(call: Callable[[], T]) -> Future[T]:
    """Run a call on a daemon thread, which the end of the process does not wait for; return the call's future."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 (the future's result re-raises any error.)
            future.set_exception(error)

    Thread(target=run, name="source-view", daemon=True).start()
    return future
