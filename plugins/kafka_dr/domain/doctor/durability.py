"""Whether the journal's database keeps what it has confirmed, judged by its settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_dr.domain.doctor.finding import InstallationFinding
from kafka_dr.domain.plain_text import first_few

_CHECK = "journal"
_NETWORK = frozenset(
    "nfs nfs4 cifs smb3 smbfs 9p ceph glusterfs fuse.glusterfs fuse.sshfs fuse.s3fs lustre afs gpfs beegfs".split()
)


@dataclass(frozen=True)
class ServerSettings:
    """What a PostgreSQL server and its role state.

    Attributes:
        version: as the server states it.
        settings: of the session, before Switchback changes them: fsync, full_page_writes, synchronous_commit,
            synchronous_standby_names.
        standbys: number of connected standbys.
        missing_rights: rights on the journal's tables that the role lacks, such as `INSERT on entries`.
        can_create: whether the role may create tables.
    """

    version: str
    settings: dict[str, str]
    standbys: int = 0
    missing_rights: tuple[str, ...] = ()
    can_create: bool = True


def durability_findings(name: str, server: ServerSettings) -> Iterator[InstallationFinding]:
    """Yield a finding for each setting by which entries may be lost that were confirmed.

    Args:
        name: of the database, without password.
    """
    for setting in ("fsync", "full_page_writes"):
        if server.settings.get(setting) == "off":
            yield InstallationFinding(
                _CHECK,
                setting,
                "The journal's PostgreSQL may lose entries in a crash",
                f"{setting} is off on {name}",
                f"Set {setting} = on in postgresql.conf and reload the server: without it a crash of the machine"
                " damages the database.",
            )
    if server.settings.get("synchronous_commit") == "off":
        yield InstallationFinding(
            _CHECK,
            "synchronous_commit",
            "The journal's PostgreSQL confirms commits before they are on disk",
            f"synchronous_commit is off on {name}; Switchback's own transactions set it to on, all others do not",
            "ALTER ROLE ... RESET synchronous_commit, ALTER DATABASE ... RESET synchronous_commit, or set it to on in"
            " postgresql.conf, so that nothing in between, such as a pooler, and no other program loses what it wrote.",
        )
    if server.standbys and not server.settings.get("synchronous_standby_names"):
        yield InstallationFinding(
            _CHECK,
            "standbys",
            "The journal's PostgreSQL has asynchronous standbys only",
            f"{name} has {server.standbys} standbys, and synchronous_standby_names is empty",
            "Name a standby in synchronous_standby_names: one that is promoted without it may lack the last entries,"
            " and every procedure then refuses (runbooks/stuck_procedure.md, The journal lost entries).",
        )


def right_findings(name: str, server: ServerSettings, has_tables: bool) -> Iterator[InstallationFinding]:
    """Yield a finding if the role cannot use the journal's tables, or cannot create them where they are missing."""
    if server.missing_rights:
        yield InstallationFinding(
            _CHECK,
            "rights",
            "The journal's role lacks rights on its tables",
            f"{first_few(server.missing_rights)} of {name}",
            "As the owner of the tables: GRANT SELECT, INSERT ON entries; GRANT SELECT, INSERT, UPDATE ON leases,"
            " notices; GRANT SELECT, INSERT, DELETE ON signs_of_life, each TO the role.",
        )
    if not has_tables and not server.can_create:
        yield InstallationFinding(
            _CHECK,
            "tables",
            "The journal has no tables yet, and its role may not create them",
            f"no right CREATE on the schema of {name}",
            "Open the journal once with a role that may create tables, for example by `switchback verify-evidence"
            " FOLDER --journal`, then grant the rights that README.md, Journal, names.",
        )


def revision_findings(name: str, found: str | None, known: tuple[str, ...]) -> Iterator[InstallationFinding]:
    """Yield a finding if the schema is of a version that this Switchback does not know; older ones are migrated.

    Args:
        found: the database's revision; None without one.
        known: all revisions that this version knows.
    """
    if found is not None and found not in known:
        yield InstallationFinding(
            _CHECK,
            "revision",
            "The journal's database has a revision that this version of Switchback does not know",
            f"revision {found} of {name}; this version knows {', '.join(known)}",
            "Install the version of Switchback that wrote to it last, or a newer one.",
        )


def file_findings(path: str, file_system: str, on_one_machine: bool) -> Iterator[InstallationFinding]:
    """Yield a finding if SQLite's file is where its locks do not hold, or where other machines do not see it.

    Args:
        file_system: type of the file system that holds the file; "" if unknown.
        on_one_machine: whether Airflow runs every task on one machine.
    """
    if file_system in _NETWORK:
        yield InstallationFinding(
            _CHECK,
            path,
            "The journal is a file of SQLite on a network file system",
            f"{path} is on {file_system}, where locks of SQLite do not exclude other machines",
            "Put the journal into PostgreSQL, or its file on a disk of the one machine that runs all tasks.",
        )
    elif not on_one_machine:
        yield InstallationFinding(
            _CHECK,
            path,
            "The journal is a file of SQLite, and Airflow runs tasks on several machines",
            f"{path}, which each machine would have for itself",
            "Put the journal into PostgreSQL (README.md, Journal).",
        )
