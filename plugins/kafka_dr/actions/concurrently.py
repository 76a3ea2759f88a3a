"""Run calls concurrently, or on a daemon thread that may be abandoned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def run_concurrently() -> Iterator[Callable[..., Future[Any]]]:
    """Yield `submit` of a thread pool, for calls that wait for different systems; at the end all have ended.

    `result()` of a submitted call returns its result or raises its error.
    """
    with ThreadPoolExecutor(8, thread_name_prefix="observe") as pool:
        yield pool.submit


def run_in_background(call: Callable[[], T]) -> Future[T]:
    """Run a call on a daemon thread and return its future; neither caller nor end of process must wait for it."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 (the future's result re-raises any error.)
            future.set_exception(error)

    Thread(target=run, name="source-view", daemon=True).start()
    return future
