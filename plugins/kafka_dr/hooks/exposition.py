"""Writes metrics in Prometheus' text format, from a registry of their own: Airflow's process may have others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from kafka_dr.domain.metrics.series import PREFIX, SERIES, MetricValue
from kafka_dr.hooks.redaction import one_line

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class _Given(Collector):
    """Gives values that were read before."""

    def __init__(self, values: Iterable[MetricValue]) -> None:
        self._values = sorted(values, key=attrgetter("name"))

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the values, a family for each series."""
        for name, values in groupby(self._values, key=attrgetter("name")):
            family = GaugeMetricFamily(PREFIX + name, SERIES[name].meaning, labels=SERIES[name].labels)
            for one in values:
                family.add_metric(list(one.labels), one.value)
            yield family


def exposition_of(values: Iterable[MetricValue], problems: Sequence[str] = ()) -> str:
    """Return values in Prometheus' text format.

    Args:
        problems: why values are missing; written as comments, which Prometheus skips and people read.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given(values))
    comments = "".join(f"# Not read: {one_line(problem, 600)}\n" for problem in problems)
    return comments + generate_latest(registry).decode("utf-8")
