"""Work on a thread beside a block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def run_beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `work` on a thread while the block lasts; `work` returns when the event that it gets is set."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=(ended,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
