"""The append-only, hash-chained journal of procedures and the leases on pairs of clusters, in one SQL database.

Invariants
1. Entries are numbered 1, 2, 3, ... and each carries the hash of the previous entry; writers never fork the chain.
2. The epoch of a pair of clusters only grows; no entry is written under an epoch older than the pair's newest.
3. An entry counts only once on disk: a journal that cannot be written is an error. The modules `database` (SQLite)
   and `postgresql` state how this is ensured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, func, select

from kafka_dr.errors import Contradiction
from kafka_dr.hooks.journal.brief import select_brief, select_ends
from kafka_dr.hooks.journal.chain import NO_HASH, add_entry, hash_of, refuse_lost_entry, refuse_old_epoch
from kafka_dr.hooks.journal.database import open_database
from kafka_dr.hooks.journal.leases import (
    cool_down_after,
    pass_pair,
    release_pair,
    require_held,
    select_last_end,
    select_newest_lease,
    take_pair,
)
from kafka_dr.hooks.journal.notices import NoticeRecord, NoticeState, claim_row, read_record, select_notices, settle_row
from kafka_dr.hooks.journal.tables import (
    ENTRIES,
    LEASES,
    NOTICES,
    SIGNS,
    CoolDown,
    JournalEntry,
    Lease,
    canonical_text,
    iso_text,
    read_entry,
    read_lease,
    refuse_unkept,
)

_T = TypeVar("_T")


class Journal:
    """Reads and writes the journal of all procedures, and the leases, in the database of one SQLAlchemy URL."""

    def __init__(self, url: str, clock: Callable[[], datetime] | None = None, lock_seconds: float = 30.0) -> None:
        """Open the journal; create its tables, or migrate them to the newest revision.

        Args:
            url: such as `sqlite:////var/lib/switchback/journal.db`, or `postgresql+psycopg://user@host/database`.
            clock: returns the journal's time; None: the clock of a PostgreSQL server, or of the machine with SQLite.
            lock_seconds: how long to wait for other writers' transactions, in seconds.

        Raises:
            BadInput: the URL cannot be used, or the database has a schema of another program or of a newer version.
            SystemUnavailable: the database does not answer, or the role may not create or change tables.
        """
        self._clock, self._database = clock, open_database(url, lock_seconds)
        self._database.update_schema()
        #: Called with each entry after it is on disk.
        self.witness: Callable[[JournalEntry], object] = lambda _entry: None
        #: Called with a pair of clusters and each epoch that was taken, after it is on disk.
        self.lease_witness: Callable[[str, int], object] = lambda _pair, _epoch: None
        #: Pair of clusters -> an epoch that was given before, even if the database does not have it.
        self.epoch_floors: dict[str, int] = {}
        #: Sequence number and hash of an entry without which the database is refused, in each transaction.
        self.seen: tuple[int, str] | None = None

    def __repr__(self) -> str:
        return f"Journal({self._database.name!r})"

    @property
    def files(self) -> tuple[Path, ...]:
        """Folder and files of a journal on SQLite, of which some may be missing; () for PostgreSQL."""
        return self._database.files

    @property
    def clock_name(self) -> str:
        """Whose clock states the journal's times, in words."""
        return self._database.clock

    def now(self) -> datetime:
        """Return the journal's time, in UTC: the only time to compare with times of entries, leases and heartbeats.

        The clocks of the machines on which tasks, watcher and Airflow's servers run may differ.

        Raises:
            SystemUnavailable: the journal's database does not answer.
        """
        return self._clock() if self._clock else self._database.now()

    def _read(self, query: Any) -> list[Row[Any]]:
        return self._database.read(query, lambda connection: refuse_lost_entry(connection, self.seen))

    def _write(self, work: Callable[[Connection], _T]) -> _T:
        def checked(connection: Connection) -> _T:
            refuse_lost_entry(connection, self.seen)
            return work(connection)

        return self._database.write(checked)

    def _time_in(self, connection: Connection) -> datetime:
        return self._clock() if self._clock else self._database.time_in(connection)

    def append(self, procedure_id: str, step: str, kind: str, epoch: int, payload: Any) -> JournalEntry:
        """Add one journal entry and return this entry; on return the entry is on disk.

        Args:
            epoch: the epoch of the procedure's lease; 0 before the procedure has a lease.
            payload: any JSON value.

        Raises:
            Superseded: the same procedure has a newer epoch.
            LeaseLost: another procedure has taken the lease of a pair of clusters that this procedure once held.
            BadInput: the payload is not JSON, or a name cannot be stored.
            SystemUnavailable: the journal is not writable, or the result of the write is unknown; the caller must
                not act.
        """
        text = canonical_text(payload)
        refuse_unkept(ENTRIES, procedure_id=procedure_id, step=step, kind=kind)

        def add(connection: Connection) -> JournalEntry:
            refuse_old_epoch(connection, procedure_id, epoch)
            return add_entry(connection, procedure_id, step, kind, epoch, self._time_in(connection), text)

        entry = self._write(add)
        self.witness(entry)
        return entry

    def entries(
        self, procedure_id: str | None = None, step: str | None = None, kind: str | None = None
    ) -> list[JournalEntry]:
        """Return journal entries by sequence number: all, or only those of the given procedure, step and kind."""
        query = select(ENTRIES).order_by(ENTRIES.c.sequence)
        for column, value in (
            (ENTRIES.c.procedure_id, procedure_id),
            (ENTRIES.c.step, step),
            (ENTRIES.c.kind, kind),
        ):
            if value is not None:
                query = query.where(column == str(value))
        return [_checked_entry(row) for row in self._read(query)]

    def entries_of_steps(self, steps: Iterable[str]) -> list[JournalEntry]:
        """Return all entries that these steps of any procedure wrote, oldest first."""
        query = select(ENTRIES).where(ENTRIES.c.step.in_([str(step) for step in steps])).order_by(ENTRIES.c.sequence)
        return [_checked_entry(row) for row in self._read(query)]

    def entries_after(self, sequence: int, since: datetime | None = None) -> list[JournalEntry]:
        """Return the entries with a greater sequence number, by sequence number.

        Args:
            since: only entries of procedures that wrote an entry at this time or later; None for all procedures.
        """
        query = select(ENTRIES).where(ENTRIES.c.sequence > sequence).order_by(ENTRIES.c.sequence)
        if since is not None:
            recent = select(ENTRIES.c.procedure_id).where(ENTRIES.c.at >= iso_text(since))
            query = query.where(ENTRIES.c.procedure_id.in_(recent))
        return [_checked_entry(row) for row in self._read(query)]

    def brief_entries(self, procedure_id: str) -> list[JournalEntry]:
        """Return a procedure's entries, with {} for long payloads; to show, not to act by: no hash is compared."""
        return [read_entry(row._mapping) for row in self._read(select_brief(procedure_id))]

    def ends(self, most: int) -> list[JournalEntry]:
        """Return the newest entries that closed procedures, and those that opened these; no hash is compared."""
        return [read_entry(row._mapping) for row in self._read(select_ends(most))]

    def last(self, procedure_id: str, step: str, kind: str) -> JournalEntry | None:
        """Return the newest entry of this kind that a procedure's step wrote; None without such an entry."""
        query = select(ENTRIES).where(
            ENTRIES.c.procedure_id == procedure_id, ENTRIES.c.step == str(step), ENTRIES.c.kind == str(kind)
        )
        rows = self._read(query.order_by(ENTRIES.c.sequence.desc()).limit(1))
        return _checked_entry(rows[0]) if rows else None

    def verify(self) -> int | None:
        """Return the first sequence number whose entry is missing, changed or out of chain; None for an intact chain.

        A chain whose newest entries were deleted looks intact: compare the last hash with the hash in the evidence.
        """
        expected, previous = 1, NO_HASH
        for row in self._read(select(ENTRIES).order_by(ENTRIES.c.sequence)):
            values = dict(row._mapping)
            stored = values.pop("hash")
            if values["sequence"] != expected or values["previous_hash"] != previous or stored != hash_of(values):
                return expected
            expected, previous = expected + 1, stored
        return None

    def links(self) -> list[tuple[int, str, str]]:
        """Return sequence number, hash of the entry before, and hash of every entry, by sequence number."""
        query = select(ENTRIES.c.sequence, ENTRIES.c.previous_hash, ENTRIES.c.hash).order_by(ENTRIES.c.sequence)
        return [(row.sequence, row.previous_hash, row.hash) for row in self._read(query)]

    def take_lease(
        self,
        pair: str,
        procedure_id: str,
        now: datetime | None = None,
        cool_down_seconds: float = 0.0,
        renew: bool = False,
    ) -> int:
        """Take the lease of a pair of clusters, for a procedure.

        Args:
            cool_down_seconds: time after another procedure's end in which the pair cannot be taken.
            renew: whether a lease that the procedure already holds gets a new epoch, with which the procedure's older
                processes lose their right to act.

        Returns:
            The epoch; the current one if the procedure already holds the lease and `renew` is False.

        Raises:
            LeaseLost: another procedure holds the lease, or this procedure has already ended.
            NotReady: a cool-down runs; the message names the ended procedure and the seconds left.
        """
        refuse_unkept(LEASES, pair=pair, holder=procedure_id)
        floor = self.epoch_floors.get(pair, 0)

        def take(connection: Connection) -> int:
            taken_at = now or self._time_in(connection)
            return take_pair(connection, pair, procedure_id, taken_at, cool_down_seconds, renew, floor)

        epoch = self._write(take)
        self.lease_witness(pair, epoch)
        return epoch

    def cool_down(self, pair: str, procedure_id: str, cool_down_seconds: float) -> CoolDown | None:
        """Return the cool-down that ran when a procedure first took the pair's lease.

        None if no cool-down of `cool_down_seconds` ran then, or if the procedure never took the lease.
        """
        first = self._read(
            select(LEASES)
            .where(LEASES.c.pair == pair, LEASES.c.holder == procedure_id)
            .order_by(LEASES.c.epoch)
            .limit(1)
        )
        if not first:
            return None
        taken = read_lease(first[0])
        ended = self._read(select_last_end(pair, taken.epoch))
        return cool_down_after(ended[0] if ended else None, taken.taken_at, cool_down_seconds)

    def check_lease(self, pair: str, procedure_id: str, epoch: int) -> None:
        """Return if the procedure holds the pair's lease with exactly this epoch; else refuse.

        Raises:
            Superseded: the procedure holds the lease, but with a newer epoch.
            LeaseLost: the procedure does not hold the lease.
        """
        rows = self._read(select_newest_lease(pair))
        require_held(read_lease(rows[0]) if rows else None, pair, procedure_id, epoch)

    def release_lease(
        self, pair: str, procedure_id: str, epoch: int, outcome: str, now: datetime | None = None
    ) -> None:
        """End a procedure's lease with an outcome; a second release with the same outcome changes nothing.

        Raises:
            LeaseLost: the procedure does not hold the pair's lease with this epoch.
            Superseded: the same procedure has a newer epoch.
            Contradiction: the lease was already released with another outcome.
        """
        refuse_unkept(LEASES, outcome=outcome)

        def release(connection: Connection) -> None:
            released_at = now or self._time_in(connection)
            release_pair(connection, pair, procedure_id, epoch, str(outcome), released_at)

        self._write(release)

    def pass_lease(
        self,
        pair: str,
        giver: str,
        taker: str,
        outcome: str,
        new_entry: tuple[str, str, str, Any],
        seen: int | None = None,
        now: datetime | None = None,
    ) -> int:
        """Pass a pair's lease to another procedure and add a journal entry about it, in one transaction.

        Args:
            giver: the procedure that holds the lease.
            taker: the procedure that gets the lease.
            outcome: the outcome with which the giver's lease ends.
            new_entry: procedure, step, kind and payload of the new entry.
            seen: sequence number of the giver's newest entry that the caller has read. None: pass the lease whatever
                the giver has written since the caller read the journal.

        Returns:
            The taker's epoch.

        Raises:
            LeaseLost: the giver does not hold the lease, or has written an entry after `seen`.
            BadInput: the payload is not JSON.
        """
        text = canonical_text(new_entry[3])
        refuse_unkept(LEASES, pair=pair, holder=taker, outcome=outcome)
        refuse_unkept(ENTRIES, procedure_id=new_entry[0], step=new_entry[1], kind=new_entry[2])

        floor = self.epoch_floors.get(pair, 0)

        def hand_over(connection: Connection) -> JournalEntry:
            at = now or self._time_in(connection)
            epoch = pass_pair(connection, pair, giver, taker, outcome, at, seen, floor)
            return add_entry(connection, *new_entry[:3], epoch, at, text)

        entry = self._write(hand_over)
        self.witness(entry)
        return entry.epoch

    def lease(self, pair: str) -> Lease | None:
        """Return the newest lease of a pair, released or not; None if no procedure ever took the lease."""
        rows = self._read(select_newest_lease(pair))
        return read_lease(rows[0]) if rows else None

    def holders(self, pair: str) -> list[str]:
        """Return the procedures that ever held a pair's lease, the newest first."""
        newest = func.max(LEASES.c.epoch)
        query = select(LEASES.c.holder).where(LEASES.c.pair == pair).group_by(LEASES.c.holder).order_by(newest.desc())
        return [row.holder for row in self._read(query)]

    def show_life(self, name: str, detail: str | None = None) -> None:
        """Store the present time as a service's last heartbeat; a heartbeat is no journal entry.

        Args:
            detail: what the service last did, at most 500 characters.
        """
        values = {"name": str(name)} | ({} if detail is None else {"detail": detail})
        refuse_unkept(SIGNS, **values)

        def replace(connection: Connection) -> None:
            connection.execute(SIGNS.delete().where(SIGNS.c.name == str(name)))
            connection.execute(SIGNS.insert().values(**values, at=iso_text(self._time_in(connection))))

        self._write(replace)

    def last_detail(self, name: str) -> str | None:
        """Return what a service told with its last heartbeat; None without a heartbeat or detail."""
        rows = self._read(select(SIGNS.c.detail).where(SIGNS.c.name == str(name)))
        return rows[0].detail if rows else None

    def last_sign(self, name: str) -> datetime | None:
        """Return the time of a service's last heartbeat, in UTC; None if the service never stored a heartbeat."""
        rows = self._read(select(SIGNS.c.at).where(SIGNS.c.name == str(name)))
        return datetime.fromisoformat(rows[0].at) if rows else None

    def claim_notice(self, notice: str, route: str, state: NoticeState = NoticeState.CLAIMED) -> bool:
        """Claim a notice on a route before it is sent; return whether the caller must send it.

        Args:
            notice: the notice's id.
            state: what the claim writes.
        """
        refuse_unkept(NOTICES, notice=notice, route=route)
        return self._write(lambda connection: claim_row(connection, notice, route, self._time_in(connection), state))

    def settle_notice(self, notice: str, route: str, state: NoticeState, detail: str | None = None) -> None:
        """Write what became of a claimed notice on a route; `detail`, at most 500 characters, says why it failed."""
        refuse_unkept(NOTICES, **({"detail": detail} if detail else {}))
        self._write(lambda connection: settle_row(connection, notice, route, self._time_in(connection), state, detail))

    def notices(
        self, ids: Iterable[str] = (), state: NoticeState | None = None, about: str | None = None
    ) -> list[NoticeRecord]:
        """Return what became of these notices on all routes, of all in a state, or of those about a procedure."""
        return [read_record(row) for row in self._read(select_notices(ids, state, about))]


#: Hashes of entries that this process has already compared with their content, each with Python's hash of the content.
_COMPARED: set[tuple[str, int]] = set()


def _checked_entry(row: Row[Any]) -> JournalEntry:
    """Return the entry in a row of the table `entries`; raise Contradiction if its hash is not that of its content."""
    values = dict(row._mapping)
    stored = values["hash"]
    known = (stored, hash(tuple(values.values())))
    if known not in _COMPARED:
        if hash_of({name: value for name, value in values.items() if name != "hash"}) != stored:
            raise Contradiction(
                f"The journal's entry {values['sequence']} was changed",
                f"{values['kind']} of {values['step']}, {values['procedure_id']}: its hash is not that of its content",
                "Nothing acts under this journal. Compare the entry with a backup of the journal's database, and"
                " restore it.",
            )
        _COMPARED.add(known)
    return read_entry(values)
