"""What a drill saw, did and was told, as plain data.

The verdict, the findings and the `drill` section of the evidence follow from these facts alone. Every field may be
empty or None: a drill of kind observe has no passes, a drill that was killed has few facts. None means that a fact is
not known, and what is not known never makes a drill pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_dr.domain.evidence.failures import failure_text


@dataclass(frozen=True)
class Integrity:
    """What a drill counted itself, by the ids of its own records, in one pass. None: not counted.

    Attributes:
        written: records that the drill wrote and the pass's source acknowledged.
        mirrored: of these, the different records found on the pass's target.
        read: different records that the drill's groups read, over both clusters.
        lost_listed: records missing on the target that the pass's evidence lists as lost or stranded.
        lost_unlisted: records missing on the target that no list of the pass names.
        lost_seconds: age of the oldest lost record when the source was taken away; 0 if none was lost.
        repeated: records that MirrorMaker 2 mirrored more than once.
        reread_most: the most records that one group read again on one partition.
        positions_exact: positions from which the group reads on without gap and without a record read twice.
        positions_bound: positions behind the exact place.
        positions_ahead: positions beyond a record that the group had not read.
        downtime_seconds: from the moment at which the drill took the source away until its clients were redirected;
            None in a pass whose source was there.
    """

    written: int | None = None
    mirrored: int | None = None
    read: int | None = None
    lost_listed: int | None = None
    lost_unlisted: int | None = None
    lost_seconds: float | None = None
    repeated: int | None = None
    reread_most: int | None = None
    positions_exact: int | None = None
    positions_bound: int | None = None
    positions_ahead: int | None = None
    downtime_seconds: float | None = None


@dataclass(frozen=True)
class DrillPass:
    """One pass of a drill: a run of one of the procedures.

    Attributes:
        name: what the pass is called in the report, such as `planned_failover`.
        evidence: content of the pass's evidence.json; None if the pass has none.
        path: where that evidence lies, relative to the drill's folder.
        expected: outcome that the pass had to have.
        simulated_loss: whether the pass's source was taken away with records that had not been mirrored.
        integrity: the drill's own count; None if nothing was counted.
    """

    name: str
    dag_id: str
    source: str
    target: str
    evidence: Mapping[str, Any] | None = None
    path: str | None = None
    expected: str = "completed"
    simulated_loss: bool = False
    integrity: Integrity | None = None


@dataclass(frozen=True)
class Planted:
    """A fault that the drill made on purpose, and whether Switchback noticed it.

    Attributes:
        what: the fault, in words.
        expected: what Switchback had to do about the fault.
        seen: what Switchback did; empty if nothing.
        noticed: whether `seen` is what was expected; None if unknown.
    """

    what: str
    expected: str
    seen: str = ""
    noticed: bool | None = None


@dataclass(frozen=True)
class Deviation:
    """Something that went another way than planned: an improvised act, a retry by hand, a manual override.

    Attributes:
        at: ISO 8601 UTC.
        by: who acted; None for the program.
    """

    at: str | None
    what: str
    by: str | None = None


@dataclass(frozen=True)
class NotDone:
    """Why a step did not do its work, as its message said.

    Attributes:
        step: of the drill, or of one of its passes.
        check: of the step check_readiness, the check that failed; "" for any other reason.
    """

    step: str
    reason: str
    seen: str = ""
    next_step: str = ""
    check: str = ""

    @property
    def text(self) -> str:
        """The whole message, with the step and the check in front."""
        parts = {"seen": self.seen, "next_step": self.next_step}
        where = f"{self.step}: {self.check}" if self.check else self.step
        return f"{where}: {failure_text({'reason': self.reason, **parts})}"


@dataclass(frozen=True)
class Untouched:
    """Whether production stayed as it was, measured before and after.

    Attributes:
        compared: what was compared, such as `task assignments of primary->standby`.
        changed: what differs, each with both values.
        unknown: what could not be compared, each with the reason.
    """

    compared: Sequence[str] = ()
    changed: Sequence[str] = ()
    unknown: Sequence[str] = ()


@dataclass(frozen=True)
class Participant:
    """A person who took part.

    Attributes:
        role: started, approved, answered, observed, informed, reviewed.
        at: ISO 8601 UTC; None if unknown.
    """

    name: str
    role: str
    at: str | None = None


@dataclass(frozen=True)
class SignOffAnswer:
    """One answer to the gate sign_off_drill.

    Attributes:
        by: who answered.
        at: ISO 8601 UTC.
        texts: the gate's free texts: `scenario`, `third_parties`, `observers`, `findings_owners`, `conclusion`.
    """

    by: str
    at: str
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DrillFacts:
    """Everything that the report of one drill is made from.

    Attributes:
        drill_id: procedure id of the drill. From the run's identity.
        kind: observe, canary or full. From the params.
        started_by: `a person`, or `schedule_drills`; None if neither is known.
        announced: True: people were told beforehand; False: a surprise; None: not stated.
        triggered_at: when the run was triggered, ISO 8601 UTC. From ProcedureOpened.
        closed_at: when the drill ended, ISO 8601 UTC; None while it runs. From the closing entry.
        drill_days, retest_days: from the flow's objectives in the topology.
        scenario: the params' free text; a sign-off's `scenario` is appended.
        scope: `clusters` {alias: id}, and lists of names, such as `flows`, `topics`, `groups`, `connectors`,
            `applications`; numbers, such as `partitions`. `left_out`: [{`what`, `why`}]. From the drill's scope.
        scope_refusals: what the drill tried to change outside of its scope, and was refused. From OutsideDrill errors.
        objectives: `Objectives.stated` of the flow; None if the topology states none.
        outlook: `if_now` of the readiness document that was made for this drill; what an observe drill is judged by.
        checks: findings of readiness at the drill's begin: [{`id`, `severity`, `text`}]; None if nothing was checked.
        assumptions: what was taken as given, and what was expected to happen.
        participants: from ProcedureOpened (started), approvals (approved) and notices (informed); observers come from
            sign-offs.
        passes: in their order.
        steps: rows of the drill's own steps, as in the evidence's `steps`.
        planned_steps: names of the steps that this kind of drill has, in order.
        not_run: step or pass -> why it did not run, where the drill knows.
        stopped: which step of the drill has no outcome, and why; None if each has one. For example a live failover.
        rejected: who rejected the drill at sign_off_drill, and why; None if nobody did.
        could_not: for kind full: what the drill could not try, with the reason.
        left_over: what the clean-up could not remove; None if no clean-up has ended.
        previous: `drill` of the last drill's evidence of the same flow; None if this is the first.
        previous_digest: digest of that evidence.
        fingerprint: `Fingerprint.as_dict()` of what was in place; None if it could not be read.
        versions: name -> version: `switchback`, `airflow`, `spark`, `kafka.ALIAS`, `mirror_maker.SOURCE->TARGET`.
        code_digest: digest of the installed code.
        folder: where the evidence is kept.
        kept_days: how long the site keeps it, by the topology; None if the topology does not state this.
        signature: what signs the journal's closing entry, in words.
    """

    drill_id: str
    kind: str
    source: str
    target: str
    reason: str = ""
    started_by: str | None = None
    announced: bool | None = None
    triggered_at: str | None = None
    closed_at: str | None = None
    drill_days: float | None = None
    retest_days: float | None = None
    scenario: str = ""
    scope: Mapping[str, Any] = field(default_factory=dict)
    scope_refusals: Sequence[str] = ()
    objectives: Mapping[str, Any] | None = None
    outlook: Mapping[str, Any] | None = None
    checks: Sequence[Mapping[str, Any]] | None = None
    assumptions: Sequence[str] = ()
    participants: Sequence[Participant] = ()
    passes: Sequence[DrillPass] = ()
    steps: Sequence[Mapping[str, Any]] = ()
    planned_steps: Sequence[str] = ()
    not_run: Mapping[str, str] = field(default_factory=dict)
    stopped: NotDone | None = None
    rejected: str | None = None
    could_not: Sequence[str] = ()
    planted: Sequence[Planted] = ()
    deviations: Sequence[Deviation] = ()
    left_over: Sequence[str] | None = None
    untouched: Untouched | None = None
    sign_offs: Sequence[SignOffAnswer] = ()
    previous: Mapping[str, Any] | None = None
    previous_digest: str | None = None
    fingerprint: Mapping[str, Any] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    code_digest: str | None = None
    folder: str | None = None
    kept_days: int | None = None
    signature: str | None = None
