"""Facts (contents of journal entries) about a change of a running flow's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_dr.procedure.entries.fact import Intent, Note, OrAbsent, StepOutcome
from kafka_dr.procedure.entries.planning import Planned
from kafka_dr.procedure.entries.records import Approval, Receipt
from kafka_dr.vocabulary import Step

_CHANGING = (Step.CHANGE_CONNECTORS, Step.RETURN_TO_SOURCE, Step.PLACE_TARGET_GROUPS)


class ChangePlanned(Planned, steps=(Step.PLAN_CHANGE,)):
    """The plan of a change of a flow."""


class ChangedFlowToStop(Intent, steps=(Step.STOP_CHANGED_FLOW,)):
    """Connectors about to be asked to stop, so that they can be changed; `syncs`: receipt of the offset syncs."""

    stops_connectors_to_change: Sequence[str]
    syncs: OrAbsent[Receipt] = None
    syncs_missing: OrAbsent[str] = None


class ChangedFlowStopped(StepOutcome, steps=(Step.STOP_CHANGED_FLOW,)):
    """All connectors of the flow are STOPPED without tasks, and the target's log ends are stable.

    Attributes:
        approval: the second person's approval of the plan.
        ends: receipt of the target's log ends after the stop, by target partition.
        stored: receipt of the last replicated source offset by partition, as Connect stores it.
    """

    approval: Approval
    states: Mapping[str, str]
    ends: Receipt
    stored: Receipt


class SettingsToChange(Intent, steps=(*_CHANGING, Step.SEED_REPLICATION)):
    """Settings of STOPPED connectors that are about to be changed: connector -> setting -> value; None removes it.

    Attributes:
        former_settings: the values of the same settings before the procedure; None for a setting that was not set.
    """

    changes_settings: Mapping[str, Mapping[str, str | None]]
    former_settings: Mapping[str, Mapping[str, str | None]]


class OffsetsToCorrect(Intent, steps=_CHANGING):
    """Last replicated offsets about to be set in STOPPED connectors; `corrects_offsets`: receipt of these offsets."""

    corrects_offsets: Receipt


class OffsetsCorrected(Note, steps=_CHANGING):
    """Last replicated offsets from which the flow goes on.

    Attributes:
        going_on: receipt of the last replicated offset of each partition; partitions without one are left out.
        ends: receipt of the target's log ends at that time, by source partition.
        partitions: number of partitions whose last copied record was compared.
        corrected: number of partitions whose stored offset was behind the last copied record; `skipped`: number of
            partitions whose interval is skipped.
        unproven: partitions whose last copied record was not found on the source, as text: records may be repeated.
        moving: which log ends of the target still moved meanwhile, as text; "" if all were stable.
    """

    going_on: Receipt
    ends: Receipt
    partitions: int
    corrected: int
    skipped: int
    unproven: Sequence[str]
    moving: str = ""


class ConnectorsChanged(StepOutcome, steps=(Step.CHANGE_CONNECTORS,)):
    """The connectors have the plan's settings, read back while they were STOPPED.

    Attributes:
        connectors: the connectors whose settings were read back.
        partitions: number of partitions whose last copied record was compared; for the others see OffsetsCorrected.
    """

    connectors: Sequence[str]
    partitions: int
    corrected: int
    skipped: int
    unproven: Sequence[str]


class ChangedFlowToResume(Intent, steps=(Step.RESUME_CHANGED_FLOW,)):
    """Connectors about to be resumed with the new settings.

    Attributes:
        checkpoints_end: log ends of MirrorMaker 2's checkpoints topic, summed up; None: there is no such topic.
        checkpoint_at: when the newest checkpoint was written, in seconds since 1970; None without any.
    """

    resumes_connectors: Sequence[str]
    checkpoints_end: OrAbsent[int] = None
    checkpoint_at: OrAbsent[float] = None


class FlowChanged(StepOutcome, steps=(Step.RESUME_CHANGED_FLOW,)):
    """The flow runs with the new settings, and records were seen to flow.

    Attributes:
        partitions_flowing: number of partitions whose first new copy was compared with its original.
        tasks: number of tasks that had records to copy; `idle_tasks`: those that had none.
        flows: the same as a sentence.
        proof_seconds: how long a record of Switchback's own took to be copied, in seconds, where all tasks were idle.
        checkpoints: what was seen of the checkpoint connector, as a sentence.
        new_checkpoints: number of records that it has written since it was resumed; None if that was not looked for.
    """

    connectors: Sequence[str]
    partitions_flowing: int
    tasks: int
    idle_tasks: int
    flows: str
    proof_seconds: OrAbsent[float] = None
    checkpoints: OrAbsent[str] = None
    new_checkpoints: OrAbsent[int] = None
