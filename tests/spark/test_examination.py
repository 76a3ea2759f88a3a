"""Every executor is looked at, also one to which Spark gives no task that runs alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr_spark import examination


class Cluster:
    """A Spark cluster: a wide stage runs on all executors in turn, a single task always on the first one.

    Executors beyond the first register while the first stage runs.
    """

    version = "4.2.0"
    _jvm = SimpleNamespace(System=SimpleNamespace(getProperty=lambda _: "17.0.1"))

    def __init__(self, monkeypatch: pytest.MonkeyPatch, hosts: list[str]) -> None:
        self.hosts, self.registered, self.patch = hosts, hosts[:1], monkeypatch

    @property
    def defaultParallelism(self) -> int:  # noqa: N802 (Spark's name)
        """Cores of the executors that have registered, one each."""
        return max(2, len(self.registered))

    def parallelize(self, values: Iterable[Any], _: int) -> Any:
        """Return what Spark calls a dataset."""
        given = list(values)

        def run(work: Callable[[Any], Any]) -> list[Any]:
            answers = []
            for number, value in enumerate(given):
                host = self.registered[number % len(self.registered)]
                self.patch.setattr(examination.socket, "gethostname", lambda host=host: host)
                answers.append(work(value))
            self.registered = self.hosts
            return answers

        return SimpleNamespace(foreach=run, map=lambda work: SimpleNamespace(collect=lambda: run(work)))


def test_every_executor_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, with what it lacks, and with the best reading of its clock."""
    hosts = ["spark-1", "spark-2", "spark-3", "spark-4"]
    cluster: Any = Cluster(monkeypatch, hosts)
    document = examination.examine_executors(cluster, ("no_such_package",))
    assert sorted(executor["host"] for executor in document["executors"]) == hosts
    for executor in document["executors"]:
        assert set(executor["missing"]) == {"no_such_package"} and abs(executor["ahead"]) <= executor["doubt"] + 0.1
