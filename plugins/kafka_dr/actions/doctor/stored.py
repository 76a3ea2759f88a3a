"""Whether the journal keeps what it has confirmed, and evidence, store and archive can be written and read here."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from kafka_dr.actions.doctor.clusters import earlier_ids
from kafka_dr.actions.doctor.site import Site
from kafka_dr.actions.doctor.units import Unit
from kafka_dr.domain.doctor.durability import durability_findings, file_findings, revision_findings, right_findings
from kafka_dr.domain.doctor.finding import InstallationFinding
from kafka_dr.domain.doctor.versions import version_findings
from kafka_dr.errors import NotReady, StoreUnavailable
from kafka_dr.hooks.archive import local_folder
from kafka_dr.hooks.doctor.journal_look import look_at_journal, sqlite_file
from kafka_dr.hooks.doctor.machine import file_system_of
from kafka_dr.hooks.file_store import FileStore
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.journal.schema import REVISIONS
from kafka_dr.hooks.private_files import refuse_open
from kafka_dr.hooks.redaction import one_line

_OWN_FILE = ".switchback-doctor"


def stored_units(site: Site) -> Iterator[Unit]:
    """Yield the units about journal, evidence folder, store and archive."""
    topology = site.topology
    yield Unit("journal", "", partial(_journal, site), (f"connections {topology.journal.connection}",))
    yield Unit("files", "evidence", partial(_folder, Path(topology.evidence), "evidence"))
    for name, settings, uri in (
        ("store", topology.store, topology.store.uri if topology.store else ""),
        ("archive", topology.recorder, topology.recorder.archive if topology.recorder else ""),
    ):
        if settings is not None:
            connection = settings.connection
            needs = (f"connections {connection}",) if connection else ()
            yield Unit("files", name, partial(_remote, site, name, uri, connection), needs)


def _journal(site: Site) -> Iterator[InstallationFinding]:
    url = site.connections.journal_url(site.topology.journal.connection)
    if (file := sqlite_file(url)) is not None:
        yield from file_findings(str(file), file_system_of(file), site.on_one_machine)
        if unwritable := _unwritable(file.parent, "the journal"):
            yield unwritable
            return
        yield from _private([file.parent, file])
    sent = time.time()
    look = look_at_journal(url)
    yield from revision_findings(look.name, look.revision, REVISIONS)
    if look.server is not None:
        site.note_clock("the journal's database", look.time, sent, time.time(), 0.0)
        yield from version_findings("PostgreSQL", look.name, look.server.version)
        yield from durability_findings(look.name, look.server)
        yield from right_findings(look.name, look.server, look.revision is not None)
    if look.revision == REVISIONS[-1]:
        site.earlier_ids = earlier_ids(Journal(url))


def _folder(folder: Path, what: str) -> Iterator[InstallationFinding]:
    unwritable = _unwritable(folder, what)
    yield from [unwritable] if unwritable else _private([folder])


def _unwritable(folder: Path, what: str) -> InstallationFinding | None:
    """Write and remove a file in a folder; of a folder that is missing, ask whether it could be created.

    Returns:
        The finding if this process cannot; None if it can.
    """
    try:
        existing = next(place for place in (folder, *folder.parents) if place.exists())
        if existing != folder:
            if not os.access(existing, os.W_OK | os.X_OK):
                raise PermissionError(13, "it is missing, and cannot be created", str(folder))
        else:
            with tempfile.NamedTemporaryFile(dir=folder, prefix=_OWN_FILE) as file:
                file.write(b"doctor")
                file.flush()
    except OSError as error:
        return InstallationFinding(
            "files",
            what,
            f"The folder of {what} cannot be written by this user",
            one_line(f"{folder}, user id {os.geteuid()}: {error.strerror or error}"),
            "Create the folder, mount its file system for writing, or make it the property of the user who runs"
            " Airflow's tasks (runbooks/where_files_are.md).",
            may_pass=True,
        )
    return None


def _private(paths: list[Path]) -> Iterator[InstallationFinding]:
    try:
        refuse_open(paths)
    except NotReady as error:
        yield InstallationFinding("files", str(paths[0]), error.reason, error.seen, error.next_step)


def _remote(site: Site, what: str, uri: str, connection: str | None) -> Iterator[InstallationFinding]:
    """Write a file, read it back and remove it; the archive has to allow that, as the recorder deletes old samples.

    A store may keep what it has. This machine's file has one name there, so that one file stays at most.
    """
    if (folder := local_folder(uri)) is not None:
        yield from _folder(folder, what)
        return
    store = FileStore(uri, (lambda: site.connections.archive_options(connection)) if connection else dict)
    deletes = what == "archive"
    text = f"{site.host}-{uuid.uuid4().hex}" if deletes else site.host
    try:
        seen, may_pass = _tried(store, f"{_OWN_FILE}-{text}", text.encode(), deletes), True
    except StoreUnavailable as error:
        seen, may_pass = error.seen, error.may_pass
    if seen:
        login = f"the credentials of the connection {connection}" if connection else "this machine's credentials"
        rights = "read, write, list and delete" if deletes else "read, write and list"
        yield InstallationFinding(
            "files",
            what,
            f"The {what} cannot be written and read from this machine",
            seen,
            f"Create the bucket or folder {uri}, let this machine reach it, and let {login} {rights} files there"
            " (runbooks/where_files_are.md).",
            may_pass=may_pass,
        )


def _tried(store: FileStore, name: str, content: bytes, deletes: bool) -> str:
    """Write, read and remove a file; return what was wrong, "" if nothing was.

    Raises:
        StoreUnavailable: a call failed; with `deletes` also if the store lets this machine remove no file.
    """
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        store.put(name, Path(file.name))
    try:
        return "" if store.read(name) == content else "a file that was just written is not read back"
    finally:
        try:
            store.remove(name)
        except StoreUnavailable as error:
            if deletes or error.may_pass:
                raise
