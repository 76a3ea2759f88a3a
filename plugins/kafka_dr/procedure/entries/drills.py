"""Facts (contents of journal entries) about drills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from kafka_dr.procedure.entries.fact import Intent, Note, OrAbsent, StepOutcome
from kafka_dr.procedure.entries.records import Figures, Receipt
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


class DrillGivenUp(Note, steps=(Step.CLOSE_PROCEDURE,)):
    """schedule_drills closes a drill whose run has written nothing for longer than a drill ever waits.

    Attributes:
        silent_step: the step that wrote the drill's newest entry.
        silent_since: when, ISO 8601 UTC.
    """

    silent_step: str
    silent_since: str


class DrillObserved(Note, steps=(Step.CHECK_READINESS,)):
    """What was in place when a drill began.

    Attributes:
        fingerprint: `Fingerprint.as_dict()`.
        size: topics, groups (names), partitions, records of the flow.
        outlook: what a failover now would cost; None if unknown.
    """

    fingerprint: Figures
    size: Figures
    outlook: Figures | None


_PASSES = (Step.RUN_PLANNED_FAILOVER, Step.RUN_FAILBACK, Step.RUN_UNPLANNED_FAILOVER, Step.RUN_SECOND_FAILBACK)


class DrillToPrepare(Intent, steps=(Step.PREPARE_DRILL,)):
    """A canary drill is about to make its topics, groups and connectors, and to begin its passes.

    Attributes:
        drill_short: the part of all names that is this drill's own.
        folder: the drill's private folder.
        ends_at: when the drill's time to live is over, ISO 8601 UTC.
        production: receipt of production's state before, as of `actions.drill.untouched`.
    """

    drill_short: str
    folder: str
    ends_at: str
    production: Receipt


class DrillPrepared(StepOutcome, steps=(Step.PREPARE_DRILL,)):
    """A canary drill has its topics, groups and connectors, and its records are on both clusters.

    Attributes:
        prepared: whether anything was made; False for a drill of another kind.
        topic_ids: alias -> topic -> id, of the topics that the drill made.
        written: records written.
        seconds: how long it took.
    """

    prepared: bool
    topic_ids: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    written: int = 0
    seconds: float = 0.0


class PassToBegin(Intent, steps=_PASSES):
    """A pass of a drill is about to be triggered; `run_id` is the Airflow run of `dag_id`."""

    dag_id: str
    run_id: str


class PassEnded(StepOutcome, steps=_PASSES):
    """A pass of a drill has ended, or was not run.

    Attributes:
        ran: whether the pass ran.
        why_not: why the pass did not run; empty if it ran.
        pass_outcome: the outcome of the pass's procedure; None if it did not run or left no evidence.
        pass_reason: the reason for that outcome.
        pass_procedure: id of the pass's procedure.
        evidence: path of its evidence.json.
        evidence_digest: its digest.
        integrity: records written, present, missing, repeated on the cluster where clients are after the pass.
    """

    ran: bool
    why_not: str = ""
    pass_outcome: OrAbsent[str] = None
    pass_reason: str = ""
    pass_procedure: OrAbsent[str] = None
    evidence: OrAbsent[str] = None
    evidence_digest: OrAbsent[str] = None
    integrity: OrAbsent[Figures] = None


class DrillToClean(Intent, steps=(Step.CLEAN_DRILL,)):
    """What a drill has made is about to be removed: topics by name and id, groups, ACL entries, connectors by name.

    Attributes:
        topic_ids_to_delete: alias -> topic -> id.
        groups_to_delete: alias -> groups.
        entries_to_remove: alias -> ACL entries as text.
        connectors_to_delete: worker's connection -> connectors.
        drill_id: in an entry of schedule_drills, the drill; None in the drill's own.
    """

    topic_ids_to_delete: Mapping[str, Mapping[str, str]]
    groups_to_delete: Mapping[str, Sequence[str]]
    entries_to_remove: Mapping[str, Sequence[str]]
    connectors_to_delete: Mapping[str, Sequence[str]]
    drill_id: OrAbsent[str] = None

    @property
    def names(self) -> list[str]:
        """Return everything that is listed, as text."""
        listed = (self.topic_ids_to_delete, self.groups_to_delete, self.entries_to_remove, self.connectors_to_delete)
        return [f"{name} ({place})" for part in listed for place, names in part.items() for name in names]


class DrillCleaned(StepOutcome, steps=(Step.CLEAN_DRILL,)):
    """A clean-up has ended: what the drill had made was removed and read back, and production compared with before.

    Attributes:
        cleaned: whether nothing that the drill had made is left; True, too, if the drill had made nothing.
        left: what could not be removed, each with the reason.
        untouched: what was compared of production, and the differences; None if the drill had made nothing.
        drill_id: in an entry of schedule_drills, the drill; None in the drill's own.
    """

    cleaned: bool
    left: Sequence[str] = ()
    untouched: OrAbsent[Figures] = None
    drill_id: OrAbsent[str] = None


class DrillSignedOff(StepOutcome, steps=(Step.SIGN_OFF_DRILL,)):
    """A drill was signed off, rejected, or nobody answered in time.

    Attributes:
        signed_by: who answered; None if nobody did.
        signed_at: when, ISO 8601 UTC.
        accepted: whether the person signed; False if the person rejected the drill, or nobody answered.
        texts: what the person wrote: scenario, third_parties, observers, findings, conclusion.
    """

    signed_by: str | None
    signed_at: str | None
    accepted: bool
    texts: Mapping[str, str] = field(default_factory=dict)
