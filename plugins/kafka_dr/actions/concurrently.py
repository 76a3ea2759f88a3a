"""Several questions at once, and work on a thread that is left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def run_concurrently() -> Iterator[Callable[..., Future[Any]]]:
    """Start calls that wait for different systems at once; what one of them raises, its result raises."""
    with ThreadPoolExecutor(8, thread_name_prefix="observe") as pool:
        yield pool.submit


def run_in_background(call: Callable[[], T]) -> Future[T]:
    """A call on a thread of its own that nobody has to wait for, not even the end of the process."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 (whatever it is, whoever asks for the result gets it.)
            future.set_exception(error)

    Thread(target=run, name="source-view", daemon=True).start()
    return future
