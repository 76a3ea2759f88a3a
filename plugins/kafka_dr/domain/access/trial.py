"""What an application's own login showed on the target."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Act(StrEnum):
    """What is done with an application's login, in this order; the values complete `cannot ...`."""

    CONNECT = "be tried"
    LOG_IN = "log in"
    WRITE = "write a record"
    READ = "read its record"
    COMMIT = "commit a position of its group"


#: The right that an act needs: operation and type of the resource.
NEEDED = {Act.WRITE: ("write", "topic"), Act.READ: ("read", "topic"), Act.COMMIT: ("read", "group")}


@dataclass(frozen=True)
class AccessTrial:
    """One application's trial on one cluster.

    Attributes:
        connection: Airflow connection with the application's login.
        principal: as which principal the brokers know the application; "" if its settings do not tell.
        topic, group: of the check; "" if only the login was tried.
        shown: the acts that succeeded.
        failed: the first act that failed; None if all that were tried succeeded.
        seen: what the brokers answered, or what is wrong with the connection; "" after a success.
        next_step: what to do, if the error says so itself.
        untried: why only the login, or nothing, was tried, as the end of a sentence; "" if everything was.
    """

    application: str
    cluster: str
    connection: str
    principal: str = ""
    topic: str = ""
    group: str = ""
    shown: tuple[Act, ...] = ()
    failed: Act | None = None
    seen: str = ""
    next_step: str = ""
    untried: str = ""

    @property
    def resource(self) -> str:
        """Name of the topic or group on which an act failed; "" if the act needs no right."""
        if self.failed not in NEEDED:
            return ""
        return self.group if self.failed is Act.COMMIT else self.topic
