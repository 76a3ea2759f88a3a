"""What lines of a broker's authorizer log tell: who was allowed to write, to read, and to use a group.

The lines are those of Kafka's logger `kafka.authorizer.logger`, as StandardAuthorizer and AclAuthorizer write them. At
DEBUG the logger names allowed requests, at INFO only refused ones. Lines at TRACE are passed over: they name rights
that a client asked for and did not use.

Invariants
1. Times are compared with times of the same log only: no other clock has a part in what counts as recent. A time
   without a zone is taken as UTC.
2. Memory grows with the number of principals, hosts and topics, not with the number of lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

#: How long before a log's newest allowed request its lines count.
WINDOW = timedelta(hours=24)
#: Stands in every line that tells something: with a capital letter in lines about requests.
_MARK = "rincipal = "

_REQUEST = re.compile(
    r"(?P<principal>\S.*?) is (?P<result>Allowed|Denied) [Oo]peration = (?P<operation>\w+) from host = (?P<host>\S+)"
    r" on resource = (?P<resource>\w+):\w+:(?P<name>.*?) for request = (?P<request>\w+)(?P<rest>.*)",
    re.DOTALL,
)
_SUPER_USER = re.compile(r"(?P<principal>\S.*?) is a super user, allowing operation")
_BY_SUPER_USER = "based on rule SuperUser"
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,6})\d*)? ?(Z|[+-]\d\d:?\d\d)?")


@dataclass(frozen=True)
class LoggedRequest:
    """One line about a request.

    Attributes:
        allowed: False if the request was refused.
        operation, resource: in capitals without underscores, such as `WRITE` and `TOPIC`.
        name: of the resource.
        request: Kafka's name of the request, such as `Produce`.
        super_user: whether the line states that the principal was allowed as a super user.
        at: time of the line; None without a time of a known form.
    """

    principal: str
    host: str
    allowed: bool
    operation: str
    resource: str
    name: str
    request: str
    super_user: bool
    at: datetime | None


def parse_line(line: str) -> LoggedRequest | None:
    """Return what a line tells of a request; None for a line at TRACE, and for one of another form."""
    head, mark, told = line.partition(f"P{_MARK}")
    found = _REQUEST.match(told) if mark and "TRACE" not in head else None
    if found is None:
        return None
    return LoggedRequest(
        principal=found["principal"],
        host=found["host"],
        allowed=found["result"] == "Allowed",
        operation=found["operation"].replace("_", "").upper(),
        resource=found["resource"].replace("_", "").upper(),
        name=found["name"],
        request=found["request"],
        super_user=_BY_SUPER_USER in found["rest"],
        at=_time_in(head),
    )


def _time_in(head: str) -> datetime | None:
    """Return the last time in the text before the message: what ships logs may have put its own time before it."""
    try:
        *_, (day, clock, fraction, zone) = _TIME.findall(head)
        at = datetime.fromisoformat(f"{day}T{clock}.{fraction or '0':0<6}{zone}")
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)


class AuthorizerLog:
    """What one broker's log tells, gathered line by line, in any order.

    Attributes:
        lines: number of lines of any kind.
        requests: number of lines about requests, allowed or refused.
        untimed: number of lines about allowed requests without a time of a known form, which tell nothing.
        oldest, newest: times of the oldest and the newest allowed request; None without one.
        super_users: principals that a line calls super users.
    """

    def __init__(self) -> None:
        self.lines = self.requests = self.untimed = 0
        self.oldest: datetime | None = None
        self.newest: datetime | None = None
        self.super_users: set[str] = set()
        #: Newest time of each use.
        self._wrote: dict[tuple[str, str, str], datetime] = {}
        self._fetched: dict[tuple[str, str, str], datetime] = {}
        self._grouped: dict[tuple[str, str], datetime] = {}

    def add(self, line: str) -> None:
        """Add one line of the log."""
        self.lines += 1
        if _MARK not in line:
            return
        request = parse_line(line)
        if request is not None:
            self._add_request(request)
        elif found := _SUPER_USER.match(line.partition(_MARK)[2]):
            self.super_users.add(found["principal"])

    def _add_request(self, request: LoggedRequest) -> None:
        self.requests += 1
        if not request.allowed:
            return
        if request.at is None:
            self.untimed += 1
            return
        self.oldest = min(self.oldest or request.at, request.at)
        self.newest = max(self.newest or request.at, request.at)
        if request.super_user:
            self.super_users.add(request.principal)
        who, use = (request.principal, request.host), (request.principal, request.host, request.name)
        if (request.resource, request.operation) == ("GROUP", "READ"):
            self._grouped[who] = max(self._grouped.get(who, request.at), request.at)
        elif (request.resource, request.operation) == ("TOPIC", "WRITE"):
            self._wrote[use] = max(self._wrote.get(use, request.at), request.at)
        elif (request.resource, request.operation, request.request) == ("TOPIC", "READ", "Fetch"):
            self._fetched[use] = max(self._fetched.get(use, request.at), request.at)

    @property
    def since(self) -> datetime | None:
        """From when on the log tells what it tells, at most `WINDOW` before its newest allowed request."""
        return None if self.newest is None or self.oldest is None else max(self.oldest, self.newest - WINDOW)

    def writes(self) -> Iterator[tuple[str, str, str]]:
        """Yield principal, host and topic of writes since `since`."""
        yield from (use for use, at in self._wrote.items() if self._counts(at))

    def fetches(self) -> Iterator[tuple[str, str, str]]:
        """Yield principal, host and topic of clients' fetches since `since`; brokers fetch by another right."""
        yield from (use for use, at in self._fetched.items() if self._counts(at))

    def group_users(self) -> Iterator[tuple[str, str]]:
        """Yield principal and host of clients that used any group since `since`."""
        yield from (who for who, at in self._grouped.items() if self._counts(at))

    def _counts(self, at: datetime) -> bool:
        return self.since is not None and at >= self.since
