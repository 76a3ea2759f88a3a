"""Writes the metrics file that node_exporter's textfile collector reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kafka_dr.actions.metrics.reading import read_metrics
from kafka_dr.config.topology import Topology
from kafka_dr.hooks.exposition import exposition_of
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.whole_file import write_whole
from kafka_dr.procedure.stored_files import StoredFiles

#: node_exporter runs as another user. The file holds aliases, DAG ids and figures: no secret, no name of a topic or
#: group, and nothing of a record.
_MODE = 0o644


def write_metrics_file(
    topology: Topology, open_journal: Callable[[], Journal], files: StoredFiles | None = None
) -> list[str]:
    """Replace the metrics file that the topology names; do nothing if it names none.

    Returns:
        Why values are missing. These texts name paths and servers, which the file shows to nobody.

    Raises:
        OSError: the file could not be written; it has its old content.
    """
    if topology.metrics is None or topology.metrics.file is None:
        return []
    reading = read_metrics(topology, open_journal, live=False, files=files)
    write_whole(Path(topology.metrics.file), exposition_of(reading.values), _MODE)
    return reading.problems
