"""What every page reads: topology, journal and readiness documents, each read anew only after it has changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from kafka_dr.actions.readiness.document import read_document
from kafka_dr.config.settings import TOPOLOGY_VARIABLE, load_topology
from kafka_dr.config.topology import Topology
from kafka_dr.connections import Connections
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.journal.shown import ShownJournal
from kafka_dr.procedure.stored_files import StoredFiles

_T = TypeVar("_T")
_State = tuple[int, int, int]


def topology_now() -> Topology:
    """Return the topology in the file that KAFKA_DR_TOPOLOGY names; BadInput if it cannot be read."""
    path = os.environ.get(TOPOLOGY_VARIABLE, "")
    return _unless_changed(path, _topology_of, load_topology)


def document_now(path: Path, files: StoredFiles | None = None) -> Mapping[str, Any] | None:
    """Return a flow's readiness document; None if there is none, or if it cannot be read.

    Args:
        path: of this machine's copy.
        files: fetches what another machine has written; None: the copy counts.
    """
    if files is not None:
        files.refresh(path)
    return _unless_changed(str(path), _document_of, lambda: None)


def journal_of(topology: Topology) -> ShownJournal:
    """Return the topology's journal, and forget what was read of it if somebody has written since.

    Raises:
        SwitchbackError: the journal cannot be read.
    """
    journal = _journal_of(Connections().journal_url(topology.journal.connection))
    try:
        journal.look_again()
    except SwitchbackError:
        # The next page opens the journal anew, and makes tables that are missing.
        _journal_of.cache_clear()
        raise
    return journal


def _unless_changed(path: str, kept: Callable[[str, _State], _T], otherwise: Callable[[], _T]) -> _T:
    """Return what was made of a file in the state in which it is now; files are replaced as a whole."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return otherwise()
    return kept(path, (found.st_mtime_ns, found.st_size, found.st_ino))


@lru_cache(maxsize=4)
def _topology_of(path: str, _state: _State) -> Topology:
    return load_topology(path)


@lru_cache(maxsize=200)
def _document_of(path: str, _state: _State) -> Mapping[str, Any] | None:
    return read_document(Path(path))


@lru_cache(maxsize=4)
def _journal_of(url: str) -> ShownJournal:
    return ShownJournal(url)
