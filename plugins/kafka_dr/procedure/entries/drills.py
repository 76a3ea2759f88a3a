"""Facts (contents of journal entries) about drills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kafka_dr.procedure.entries.fact import Note
from kafka_dr.procedure.entries.records import Figures
from kafka_dr.vocabulary import Step


class DrillJudged(Note, steps=(Step.CLOSE_PROCEDURE,)):
    """A drill has ended with a verdict.

    Attributes:
        source: source of the drilled flow.
        target: target of the drilled flow.
        drill_kind: which kind of drill it was.
        procedure_id: the drill.
        ended_at: when the drill ended, ISO 8601 UTC.
        fingerprint: `Fingerprint.as_dict()` of what was in place when the drill was made.
        findings_open: ids of its findings that are neither closed nor accepted.
    """

    source: str
    target: str
    drill_kind: Literal["observe", "canary", "full"]
    verdict: Literal["passed", "conditional", "failed"]
    fingerprint: Figures
    procedure_id: str
    ended_at: str
    findings_open: Sequence[str] = ()
