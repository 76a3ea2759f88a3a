"""Records in the journal what a person does manually; the procedure counts the recorded steps as done.

Invariants
1. The start of opening the target, or of returning to the source, is recorded before a person acts; a manual step is
   read back before its outcome is recorded.
2. Every manual action takes a new epoch, so that no process of the procedure can act at the same time.
"""

from __future__ import annotations

from collections.abc import Callable

from kafka_dr.actions.fencing.rules import target_rules
from kafka_dr.actions.offsets.client_topics import local_partitions
from kafka_dr.actions.offsets.commit import held_positions
from kafka_dr.actions.scope.position_frames import by_group, partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.manual.context import ManualContext
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput, ReadBackFailed, Refusal
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.binding import refuse_broken_binding
from kafka_dr.procedure.entries import (
    GatePassed,
    GroupsCommitted,
    ReverseFlowSeeded,
    SourceToReopen,
    StepOutcome,
    TargetOpened,
    TargetToOpen,
)
from kafka_dr.procedure.run import Run
from kafka_dr.procedures import steps_of
from kafka_dr.vocabulary import Step

MANUAL_ACTIONS = ("opening", "opened", "returning")


def record_manual_action(procedure: Run, hand: ManualContext, what: str, who: str) -> str:
    """Write the journal entries of a manual action; return a sentence that says what holds now.

    Args:
        hand: the procedure's state, from the journal and the procedure's files.
        what: `opening` (the person begins to open the target), `opened` (has done so) or `returning` (begins to return
            clients to the source).
        who: name of the person.

    Raises:
        BadInput: `who` is empty.
        Refusal: `opening`, but the procedure was aborted or returns to the source; `returning`, but the target is open;
            `opened`, but `opening` was not recorded.
        ReadBackFailed: `opened`, but positions, seeds or ACL entries are not as planned.
    """
    if not who.strip():
        raise BadInput("The name of the person is missing", "", "Add --as YOUR_NAME: the journal records the name.")
    procedure.anchors.refuse_contradicted_journal()
    refuse_broken_binding(procedure)
    procedure.lease.take_new_epoch()
    return {"opening": _record_opening, "opened": _record_opened, "returning": _record_returning}[what](
        procedure, hand, who
    )


def _record_opening(procedure: Run, hand: ManualContext, who: str) -> str:
    procedure.progress.refuse_if_going_back()
    if procedure.progress.began(Step.OPEN_TARGET) is None:
        record_fact(
            procedure.authority,
            Step.OPEN_TARGET,
            TargetToOpen(
                removes_acl_entries=hand.opening.removes, adds_acl_entries=hand.opening.adds or None, by_hand=who
            ),
        )
    return f"{procedure.id}: {who} opens the target manually; from now on no step returns to the source by itself"


def _record_returning(procedure: Run, _: ManualContext, who: str) -> str:
    if procedure.progress.done(TargetOpened) is not None:
        raise Refusal(
            "The target is open",
            f"the journal has an outcome of open_target: clients may write on {procedure.request.target}",
            "Continue to the target: run to_go_on.sh, or clear the task redirect_clients in Airflow. To move clients"
            " back later, run failback.",
        )
    record_fact(procedure.authority, Step.RETURN_TO_SOURCE, SourceToReopen(reopens_source=True, by_hand=who))
    return f"{procedure.id}: {who} returns to the source manually; from now on every step towards the target refuses"


def _record_opened(procedure: Run, hand: ManualContext, who: str) -> str:
    """Read back what the steps up to open_target change, then record an outcome for each step that has no outcome."""
    if procedure.progress.began(Step.OPEN_TARGET) is None:
        raise Refusal(
            "open_target has not begun",
            "the journal has no intent of open_target",
            f"Run `python -m kafka_dr.commands.plan {procedure.id} --by-hand opening --as {who}` before you open the"
            " target, and the same command with --by-hand opened after that.",
        )
    left = frozenset(steps_of(procedure.identity.dag_id)) - hand.done
    checks = {
        Step.COMMIT_GROUPS: _positions_mismatches,
        Step.SEED_REVERSE_REPLICATION: _seed_mismatches,
        Step.OPEN_TARGET: _remaining_entries,
    }
    mismatches = [line for step, check in checks.items() if step in left for line in check(procedure, hand)]
    if mismatches:
        raise ReadBackFailed(
            "The target differs from the plan; open_target was not recorded as done",
            f"target {procedure.request.target}: {first_few(mismatches, separator='; ')}",
            "Print the commands again with --commands, run the commands that correct these differences, then repeat"
            " --by-hand opened.",
        )
    outcomes: dict[Step, Callable[[], StepOutcome]] = {
        Step.REVIEW_TRANSLATION: lambda: GatePassed(asked=False, by_hand=who),
        Step.COMMIT_GROUPS: lambda: _groups_committed(procedure, hand, who),
        Step.SEED_REVERSE_REPLICATION: lambda: ReverseFlowSeeded(
            seeded=len({tp for seeds in (hand.seeds or {}).values() for tp in seeds}), by_hand=who
        ),
        Step.OPEN_TARGET: lambda: TargetOpened(opened_at=procedure.now(), by_hand=who),
    }
    for step, outcome in outcomes.items():
        if step in left:
            record_fact(procedure.authority, step, outcome())
    return (
        f"{procedure.id}: read back and recorded in the journal; when Airflow runs again, the procedure continues with"
        " redirect_clients"
    )


def _positions_mismatches(procedure: Run, hand: ManualContext) -> list[str]:
    if hand.positions is None and Step.COMMIT_GROUPS in hand.notes:
        return [hand.notes[Step.COMMIT_GROUPS]]
    expected = {
        (group, TopicPartition(topic, partition)): offset for group, topic, partition, offset in hand.positions or ()
    }
    groups = by_group(held_positions(procedure, sorted({group for group, _ in expected})))
    committed = {(group, tp): offset for group, positions in groups for tp, offset in positions.items()}
    return [
        f"{group} on {tp} is at {committed.get((group, tp))}, not at {offset}"
        for (group, tp), offset in expected.items()
        if committed.get((group, tp)) != offset
    ]


def _seed_mismatches(procedure: Run, hand: ManualContext) -> list[str]:
    flow = procedure.reverse_flow
    if flow is None or not hand.seeds:
        return []
    stored = procedure.mirror_maker(flow).offsets().of(flow.source)
    return [
        f"{connector} continues after offset {stored.get(tp)} on {tp}, not after offset {last}"
        for connector, seeds in hand.seeds.items()
        for tp, last in seeds.items()
        if stored.get(tp) != last
    ]


def _remaining_entries(procedure: Run, hand: ManualContext) -> list[str]:
    unapplied = hand.opening_made.list_unapplied(target_rules(procedure).entries)
    return [f"on {procedure.request.target}, {text}" for text in unapplied]


def _groups_committed(procedure: Run, hand: ManualContext, who: str) -> GroupsCommitted:
    ends = procedure.systems.target.ends(list(local_partitions(procedure)))
    receipt = procedure.artifacts.save("local_ends", partitions_frame(ends, "offset"))
    return GroupsCommitted(positions=len(hand.positions or ()), local_ends=receipt, by_hand=who)
