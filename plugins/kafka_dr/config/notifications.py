"""What the topology states about notices: who is told of which flows, and how."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Literal

from pydantic import Field, model_validator

from kafka_dr.config.fields import Connection, Model, matching_text

MailAddress = Annotated[
    str, matching_text(r"[^\s@<>,;]+@[^\s@<>,;]+", 200, "expected one mail address, without a name")
]
Channel = Annotated[str, matching_text(r"[#A-Za-z0-9][\w.-]*", 100, "expected a channel's name or id")]
FlowName = Annotated[str, matching_text(r"[^\s>]+->[^\s>]+", 210, "expected a flow, written source->target")]


class NotificationRoute(Model):
    """One way to tell people.

    Attributes:
        kind: `smtp`: mail; `slack`: Slack's API; `webhook`: a JSON document by HTTP POST.
        connection: Airflow connection with the server's address and login.
        flows: the flows of which notices are sent, each `source->target`; empty for all flows.
        least_severity: notices below this severity are not sent.
        to: recipients of the mail.
        channel: Slack's channel.
    """

    kind: Literal["smtp", "slack", "webhook"]
    connection: Connection
    flows: tuple[FlowName, ...] = ()
    least_severity: Literal["info", "warning", "critical"] = "info"
    to: Annotated[tuple[MailAddress, ...], Field(max_length=50)] = ()
    channel: Channel | None = None

    @model_validator(mode="after")
    def _has_recipients(self) -> NotificationRoute:
        if bool(self.to) != (self.kind == "smtp"):
            raise ValueError("`to`, a list of mail addresses, is for the kind smtp, which needs it")
        if bool(self.channel) != (self.kind == "slack"):
            raise ValueError("`channel` is for the kind slack, which needs it")
        return self

    @property
    def key(self) -> str:
        """The same for routes with the same recipients, which get each notice once; 300 characters at most."""
        recipients = sha256(",".join((*sorted(self.to), self.channel or "")).encode()).hexdigest()
        return f"{self.kind} {self.connection} {recipients[:12]}"

    def __str__(self) -> str:
        return f"{self.kind} by connection {self.connection}"
