"""Which notices were sent: a process claims a notice on a route before it sends the notice.

No other process then sends it. A claim that was never settled belongs to a process that ended, or still works: whether
its notice was sent is unknown, and the notice is not sent again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import ColumnElement, Connection, Row, Select, func, select

from kafka_dr.hooks.journal.tables import NOTICES, iso_text


class NoticeState(StrEnum):
    """What became of a notice on a route.

    BEGUN: no notice, but the time from which on notices are sent on the route. CLAIMED: a process is about to send it.
    WAITING: it was not sent, and is tried again. SENT: the server took it. NOT_SENT: it was not sent, and is not tried
    again. UNKNOWN: it may have been sent, and is not tried again.
    """

    BEGUN = "begun"
    CLAIMED = "claimed"
    WAITING = "waiting"
    SENT = "sent"
    NOT_SENT = "not sent"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class NoticeRecord:
    """What became of one notice on one route, and since when, in UTC.

    Attributes:
        tries: how often a process has claimed it.
        detail: why it was not sent, or why that is unknown; None if it was sent.
    """

    notice: str
    route: str
    state: NoticeState
    at: datetime
    tries: int
    detail: str | None


def read_record(row: Row[tuple[object, ...]]) -> NoticeRecord:
    """Return the record that a row of the table `notices` holds."""
    at, state = datetime.fromisoformat(row.at), NoticeState(row.state)
    return NoticeRecord(row.notice, row.route, state, at, row.tries, row.detail)


def select_notices(ids: Iterable[str], state: NoticeState | None, about: str | None) -> Select[tuple[object, ...]]:
    """Return the query of the rows of these notices, of all in a state, or of those about a procedure, by its id."""
    chosen = NOTICES.c.notice.in_(list(ids)) if state is None else NOTICES.c.state == state.value
    if about is not None:
        # Not LIKE, which takes capitals for small letters on SQLite.
        prefix = f"{about}/"
        chosen = func.substr(NOTICES.c.notice, 1, len(prefix)) == prefix
    return select(NOTICES).where(chosen).order_by(NOTICES.c.at, NOTICES.c.notice, NOTICES.c.route)


def claim_row(connection: Connection, notice: str, route: str, now: datetime, state: NoticeState) -> bool:
    """Write a notice's row, in the given state, if it has none or waits; return whether the caller has written it."""
    row = connection.execute(select(NOTICES).where(_is(notice, route))).first()
    values = {"state": state.value, "at": iso_text(now)}
    if row is None:
        connection.execute(NOTICES.insert().values(notice=notice, route=route, tries=1, **values))
        return True
    record = read_record(row)
    if record.state != NoticeState.WAITING:
        return False
    connection.execute(NOTICES.update().where(_is(notice, route)).values(tries=record.tries + 1, **values))
    return True


def settle_row(
    connection: Connection, notice: str, route: str, now: datetime, state: NoticeState, detail: str | None
) -> None:
    """Write what became of a claimed notice."""
    values = {"state": state.value, "at": iso_text(now), "detail": detail}
    connection.execute(NOTICES.update().where(_is(notice, route)).values(**values))


def _is(notice: str, route: str) -> ColumnElement[bool]:
    return (NOTICES.c.notice == notice) & (NOTICES.c.route == route)
