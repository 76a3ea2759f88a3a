"""Have connectors begin at record 0 while topics are copied again, though `auto.offset.reset` differs.

A connector whose `auto.offset.reset` is `latest` begins a partition without a stored offset at its end, and Connect can
store no offset by which copying begins at 0. So its setting is `earliest` meanwhile.

Invariants
1. The setting is changed only while the source connectors are STOPPED without tasks; offsets are read back before.
2. While it is `earliest`, no other partition with records is without a stored offset: none is copied from its start.
3. The former value is set only when each partition with a record has a stored offset, so that no record is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_dr.actions.flow_change.changed_flow import changed_flow
from kafka_dr.actions.flow_change.connector_changes import change_settings, correct_offsets
from kafka_dr.actions.flow_change.copied_offsets import MirroredPartition, mirrored_partitions, wait_for_stable_copies
from kafka_dr.actions.re_replication.scope import ChosenTopics, planned_copies
from kafka_dr.actions.replication.reverse import refuse_loop
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.re_replication.plan import ReReplicationPlan
from kafka_dr.domain.re_replication.starts import EARLIEST, RESET, connectors_to_reset
from kafka_dr.domain.readiness.alike_connectors import isolation_of
from kafka_dr.errors import Contradiction, NotReady
from kafka_dr.hooks.brokers.record import digest_of
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run

Resets = Mapping[str, str | None]


def resets_for(chosen: ChosenTopics, firsts: Mapping[TopicPartition, int]) -> dict[str, str | None]:
    """Return the source connectors that must begin at the first record meanwhile, with their own setting now.

    Raises:
        NotReady: there is one, and without a Connect worker its settings are a file that only people change.
    """
    flow, worker = chosen.procedure.flow, chosen.procedure.mirror_maker(chosen.procedure.flow)
    owners = worker.topic_filter().connectors_of
    resets = connectors_to_reset(
        firsts, {topic: owners(topic) for topic in chosen.names}, {name: worker.config(name) for name in worker.sources}
    )
    if resets and flow.connect is None:
        raise NotReady(
            "Copying cannot begin at offset 0, because MirrorMaker 2 begins partitions without an offset at their end",
            f"the topology states that auto.offset.reset of {flow.source}->{flow.target} is not earliest",
            f"Nothing was changed. Remove {RESET} from the settings of MirrorMaker 2's processes, and from"
            " `mirror_maker` of the flow in the topology; its default is earliest. Partitions of which nothing was"
            " copied yet are then copied from their first record. Start the processes again, then a new run.",
        )
    return resets


def ends_without_offset(procedure: Run, resets: Resets) -> tuple[tuple[str, int, int], ...]:
    """Return topic, partition and source log end of partitions with records of which Connect stores no offset.

    Such a connector began there at the end, and copied nothing since: it is to go on at this end.
    """
    return tuple((*one.source, one.log.end) for one in _without_offset(procedure, resets)) if resets else ()


def held_offsets(plan: ReReplicationPlan, known: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offsets to store of the plan's partitions without one, except of those that are known by now."""
    ends = {TopicPartition(topic, partition): end for topic, partition, end in plan.without_offset}
    return {tp: end - 1 for tp, end in ends.items() if tp not in set(known)}


def begin_at_first_record(procedure: Run, step: str, resets: Resets) -> None:
    """Set `auto.offset.reset` of the STOPPED connectors to earliest, and read it back.

    Raises:
        Contradiction: somebody changed the setting after the plan was made.
        NotReady: a connector runs.
    """
    strange = [
        f"{name}: {former} in the plan, {now} now"
        for name, former in resets.items()
        if (now := _reset_now(procedure, name)) not in (former, EARLIEST)
    ]
    if strange:
        raise Contradiction(
            f"{RESET} was changed after the plan was made",
            first_few(strange),
            "Find out which user or tool changes the connectors of this flow, and set the value of the plan again. Then"
            " clear seed_replication.",
        )
    change_settings(procedure, step, _settings(dict.fromkeys(resets, EARLIEST)), _settings(resets))


def refuse_other_reset(procedure: Run, resets: Resets) -> None:
    """Refuse to resume a flow whose connectors would begin partitions without an offset at their end."""
    worker = procedure.mirror_maker(procedure.flow)
    other = [name for name in resets if worker.status(name).stopped and _reset_now(procedure, name) != EARLIEST]
    if other:
        raise Contradiction(
            f"{RESET} is no longer earliest, though topics are to be copied from offset 0",
            first_few(other),
            "The flow was not resumed. Find out which user or tool changes the connectors of this flow. Then clear"
            " seed_replication with its downstream tasks.",
        )


def set_former_reset(procedure: Run, step: str) -> list[str]:
    """Set the former `auto.offset.reset` again, behind the last copies; return once the flow is resumed.

    Returns:
        The connectors whose setting the run had changed. Their tasks run, with the former setting. Safe to repeat.
    """
    resets = planned_copies(procedure)[0].resets
    worker = procedure.mirror_maker(procedure.flow)

    def is_set() -> list[str]:
        stopped = [name for name in worker.sources if worker.status(name).stopped]
        former = all(_reset_now(procedure, name) == value for name, value in resets.items())
        if former and not stopped:
            return list(resets)
        if not stopped:
            _refuse_uncopied(_with_record(procedure, resets)[0])
        _set_stopped(procedure, step, resets)
        return list(resets)

    what = "The former auto.offset.reset"
    return procedure.progress.wait(step, what, is_set, procedure.request.deadlines.catch_up_seconds) if resets else []


def stop_checkpoints_too(procedure: Run, step: str) -> None:
    """Stop a flow without a Connect worker, whose checkpoint connector ran while topics were copied; safe to repeat.

    So its older history can place no group any more. Offsets that are behind their last copy are corrected.
    """
    if procedure.flow.connect is None:
        _stop_still(procedure, step)
        correct_offsets(procedure, step, changed_flow(procedure).topic_filter())


def _stop_still(procedure: Run, step: str) -> None:
    """Stop the source connectors, and wait until the target's log ends stand still."""
    worker = procedure.mirror_maker(procedure.flow)
    procedure.authority.hold()
    worker.stop_sources(deadline=procedure.request.deadlines.stop_seconds)
    wait_for_stable_copies(procedure, step)


def _set_stopped(procedure: Run, step: str, resets: Resets) -> None:
    """Stop the source connectors, set the former value, and resume them; raise NotYet if a record came meanwhile."""
    worker, seconds = procedure.mirror_maker(procedure.flow), procedure.request.deadlines.stop_seconds
    _stop_still(procedure, step)
    chosen: dict[TopicPartition, int | None] = {
        one.source: one.log.end - 1 for one in _with_record(procedure, resets)[1]
    }
    correct_offsets(procedure, step, changed_flow(procedure).topic_filter(), chosen)
    uncopied, _ = _with_record(procedure, resets)
    wanted = _settings(dict.fromkeys(resets, EARLIEST)) if uncopied else _settings(resets)
    change_settings(procedure, step, wanted, _settings(resets))
    refuse_loop(procedure)
    for name in worker.sources:
        procedure.authority.hold()
        worker.resume(name, deadline=seconds, needs_tasks=False)
    _refuse_uncopied(uncopied)


def _refuse_uncopied(uncopied: list[MirroredPartition]) -> None:
    if uncopied:
        raise NotYet(f"no offset is stored yet of {first_few([str(one.source) for one in uncopied])}")


def _with_record(procedure: Run, resets: Resets) -> tuple[list[MirroredPartition], list[MirroredPartition]]:
    """Return partitions without a stored offset: those with a record, and those whose log holds none any more."""
    lacking = _without_offset(procedure, resets)
    isolation = isolation_of(procedure.mirror_maker(procedure.flow).source_config())
    reader = procedure.systems.reader(procedure.request.source, isolation)
    tails = reader.last_records({one.source: one.log.end for one in lacking}, take=digest_of)
    filled = [one for one in lacking if tails[one.source].last is not None]
    return filled, [one for one in lacking if tails[one.source].last is None]


def _without_offset(procedure: Run, resets: Resets) -> list[MirroredPartition]:
    mirrors = procedure.mirror_maker(procedure.flow).topic_filter()
    return [
        one
        for one in mirrored_partitions(procedure, mirrors)
        if one.stored is None and one.log.end and resets.keys() & {*mirrors.connectors_of(one.source.topic)}
    ]


def _reset_now(procedure: Run, name: str) -> str | None:
    return procedure.mirror_maker(procedure.flow).config(name).get(RESET)


def _settings(resets: Resets) -> dict[str, dict[str, str | None]]:
    return {name: {RESET: value} for name, value in resets.items()}
