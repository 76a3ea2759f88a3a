"""Threads that read a cluster again and again while its brokers restart one after the other."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence

from kafka_dr.errors import KafkaUnavailable

from lab.environment.state import Lab
from tests.faults.deployment.outages import restart_brokers

#: Pause after each round of restarts, in seconds.
REST_SECONDS = 5.0


class Looking(threading.Thread, ABC):
    """Calls `look` until `over` is set; `errors` counts the texts of the errors."""

    def __init__(self) -> None:
        super().__init__()
        self.errors, self.over = Counter[str](), threading.Event()

    @abstractmethod
    def look(self) -> None:
        """Read the cluster once, and count what was read."""

    def run(self) -> None:
        """Look until `over` is set."""
        while not self.over.is_set():
            try:
                self.look()
            except KafkaUnavailable as error:
                self.errors[str(error)] += 1


def look_while_brokers_restart(lab: Lab, alias: str, looking: Sequence[Looking], rounds: int) -> None:
    """Restart the brokers of a site so many times, one after the other, while the threads look."""
    for one in looking:
        one.start()
    try:
        for _ in range(rounds):
            restart_brokers(lab, alias, lambda: None)
            time.sleep(REST_SECONDS)
    finally:
        for one in looking:
            one.over.set()
        for one in looking:
            one.join()
