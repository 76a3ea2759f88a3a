"""What a failed task's stack trace says: which kind of failure, by the exceptions of Kafka's clients in it."""

from __future__ import annotations

import re
from enum import StrEnum


class TraceKind(StrEnum):
    """Why a connector or task failed, by its trace."""

    LOGIN = "a login was refused"
    RIGHTS = "a right is missing"
    TOO_LARGE = "a record is too large"
    SETTING = "a setting is unusable"
    NO_ANSWER = "a cluster did not answer"
    OTHER = "something else"


#: In this order: an exception of a later kind often wraps, or only follows from, one of an earlier kind.
_SIGNS: tuple[tuple[TraceKind, re.Pattern[str]], ...] = (
    (
        TraceKind.SETTING,
        re.compile(r"ConfigException|JAAS|LoginModule|ClassNotFoundException|No resolvable bootstrap urls|Invalid url"),
    ),
    (
        TraceKind.LOGIN,
        re.compile(r"AuthenticationException|Authentication failed|LoginException|SSLHandshakeException"),
    ),
    (TraceKind.RIGHTS, re.compile(r"AuthorizationException|Not authorized to access")),
    (
        TraceKind.TOO_LARGE,
        re.compile(r"RecordTooLargeException|RecordBatchTooLargeException|larger than .*max\.request"),
    ),
    (TraceKind.NO_ANSWER, re.compile(r"TimeoutException|DisconnectException|UnknownHostException|Connection refused")),
)


def kind_of_trace(trace: str) -> TraceKind:
    """Return the kind of failure that a trace shows; `trace`: its lines that name exceptions, or all of it."""
    return next((kind for kind, sign in _SIGNS if sign.search(trace)), TraceKind.OTHER)
