"""Which offset option a flow has, as a person recorded it: `offset_option` of a flow in the topology."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from kafka_dr.config.fields import Model, matching_text
from kafka_dr.domain.mirror_maker.offset_option import OffsetOption, RecordedOption

_TEXT = r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?"


def _as_text(value: object) -> object:
    """Convert the date that YAML makes of 2026-11-28 back to this text."""
    return value.isoformat() if type(value) is dt.date else value


def _check_date(text: str) -> str:
    try:
        return dt.date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError("expected a day such as 2026-11-28") from None


class OffsetOptionRecord(Model):
    """The offset option that was chosen for a flow.

    Attributes:
        option: one of the four options; see `OffsetOption`.
        reason: why it was chosen, on one line.
        date: day of the decision, such as 2026-11-28.
        person: who decided.
    """

    option: OffsetOption
    reason: Annotated[str, matching_text(_TEXT, 1000, "a text on one line, not empty")]
    date: Annotated[str, BeforeValidator(_as_text), AfterValidator(_check_date)] | None = None
    person: Annotated[str, matching_text(_TEXT, 200, "a name on one line, not empty")] | None = None

    @property
    def recorded(self) -> RecordedOption:
        """Return the record in the form that plans and readiness use."""
        return RecordedOption(self.option, self.reason, self.date, self.person)
