"""Bytes that calls allocate, as Python counts them: the same on every machine."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def allocated(call: Callable[[], T]) -> tuple[T, int, int]:
    """Return what a call returns, the bytes that stay allocated for it, and the most bytes during the call."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = call()
        most = tracemalloc.get_traced_memory()[1]
        gc.collect()
        return result, tracemalloc.get_traced_memory()[0] - before, most - before
    finally:
        tracemalloc.stop()
