"""Can the clients move now, and what will happen if they do."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pandas as pd

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.fencing.fence import (
    FenceScope,
    client_principals,
    fence_entries,
    opening_entries,
)
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.plan import ExcludedGroup, GroupForecast, Plan, expected_classes, unknown_groups
from kafka_dr.domain.readiness.readiness import blockers, isolation_of, notes, settling
from kafka_dr.errors import NotReady, Refusal, SwitchbackError
from kafka_dr.actions.fencing.acl_fence import READ_AGAIN_UP_TO
from kafka_dr.actions.scope.internal_topics import checkpoints_of, offset_syncs_of
from kafka_dr.actions.readiness.observe import observe
from kafka_dr.actions.fencing.open_transactions import transaction_tool
from kafka_dr.actions.scope.position_frames import placed, ranked
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.procedure.authority import record
from kafka_dr.procedure.entries import (
    FailoverForecast,
    ProcedureOpened,
    ReadinessBlocked,
    ReadinessChecked,
    TopicsPrepared,
    facts_of,
    newest,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import PROBE_TOPIC, Step

_JUST_NOW_SECONDS = 60.0
#: How long Connect may take to assign what it had to assign anew.
_SETTLED_SECONDS, _LOOK_AGAIN_SECONDS = 20.0, 0.5


class CheckReadiness(ProcedureStep):
    """Ask all gates at once; any blocker ends the procedure before anything was touched."""

    def act(self, procedure: Run, context: Any) -> ReadinessChecked:
        """Observe, ask the gates, remember the topic ids for the next time."""
        read_at, acknowledged = procedure.now(), procedure.request.choices.get("acknowledge_recreated_topics", False)
        seen = observed_at_rest(procedure, {} if acknowledged else known_topic_ids(procedure))
        found = blockers(seen)
        if found:
            record(procedure.authority, self.task_id, ReadinessBlocked(blockers=[b.as_dict() for b in found]))
            listed = "; ".join(f"{b.gate}: {b.reason} ({b.seen})" for b in found)
            raise NotReady(
                f"{len(found)} readiness gates are closed", listed, " ".join(dict.fromkeys(b.next_step for b in found))
            )
        transactions_can_be_ended(procedure)
        procedure.systems.connections.check_spark(procedure.topology.spark.connection)
        return ReadinessChecked(
            topics=len(seen.scope),
            groups=len(seen.groups),
            notes=notes(seen),
            records_per_second=records_per_second(seen),
            isolation=isolation_of(seen.flow.source_config),
            topic_ids={t: seen.source.topics[t].topic_id for t in seen.scope},
            **kept_for_forecast(procedure, seen.positions, read_at),
        )


def observed_at_rest(procedure: Run, known: dict[str, str]) -> Observation:
    """Observe both clusters and the flow; while Connect assigns connectors, again for some seconds."""
    ends_at = time.monotonic() + _SETTLED_SECONDS
    while settling(seen := observe(procedure, known)) and time.monotonic() < ends_at:
        time.sleep(_LOOK_AGAIN_SECONDS)
    return seen


def transactions_can_be_ended(procedure: Run) -> None:
    """Where the run may have to end transactions, show that it can, on an id of our own; nothing is fenced yet."""
    tool = transaction_tool(procedure) if procedure.request.abort_open_transactions else None
    try:
        if tool is not None:
            tool.check()
    except SwitchbackError as error:
        raise NotReady(
            "Open transactions could not be aborted",
            str(error),
            "Mend this, or leave abort_open_transactions out: they are then waited for.",
        ) from None


def known_topic_ids(procedure: Run) -> dict[str, str]:
    """Topic ids by the last readiness check in this direction, and those that failbacks made anew since."""
    request = procedure.request
    checked = [*facts_of(procedure.journal.entries(step=Step.CHECK_READINESS), ReadinessChecked)]
    for entry, ready in reversed(checked):
        opened = newest(procedure.journal.entries(entry.procedure_id, Step.OPEN_PROCEDURE), ProcedureOpened)
        if opened and (opened.source, opened.target) == (request.source, request.target):
            return {**ready.topic_ids, **made_anew_since(procedure, entry.sequence)}
    return {}


def made_anew_since(procedure: Run, sequence: int) -> dict[str, str]:
    """Ids of topics that failbacks made anew on the source; MirrorMaker 2's data on the old ones is deleted, too."""
    made: dict[str, str] = {}
    for entry, prepared in facts_of(procedure.journal.entries(step=Step.PREPARE_TOPICS), TopicsPrepared):
        if entry.sequence < sequence or not prepared.recreated.rows:
            continue
        failback = procedure.other(entry.procedure_id)
        if failback is not None and failback.request.target == procedure.request.source:
            frame = failback.artifacts.load(prepared.recreated)
            made |= zip(frame["topic"], frame["topic_id"], strict=True)
    return made


class Forecast(ProcedureStep):
    """What the run will do and what it will cost: the plan, whose digest every approval names."""

    def act(self, procedure: Run, context: Any) -> FailoverForecast:
        """Observe again and write the plan."""
        seen = observe(procedure, {}, apart=0, held=positions_read_just_now(procedure))
        refuse_unknown_groups(procedure, seen)
        groups = forecast_of(
            procedure, seen, compared_positions(seen, checkpoints_of(procedure), offset_syncs_of(procedure))
        )
        plan = _plan(procedure, seen, groups).as_dict()
        return FailoverForecast(
            plan=plan,
            plan_digest=digest_of(plan),
            active_groups=sorted(
                g.group for g in groups if g.active and g.group not in procedure.request.exclude_groups
            ),
            end_sum=sum(seen.last.source_ends.values()),
        )


def kept_for_forecast(procedure: Run, positions: pd.DataFrame, read_at: str) -> dict[str, Any]:
    """Figures of positions that the forecast takes if it follows at once; few are better read again."""
    return (
        {"positions": procedure.artifacts.save("positions_at_readiness", positions), "read_at": read_at}
        if len(positions) > READ_AGAIN_UP_TO
        else {}
    )


def positions_read_just_now(procedure: Run) -> pd.DataFrame | None:
    """Positions of check_readiness if read just now, else None: reading ten thousand groups again takes long."""
    ready = procedure.progress.require(ReadinessChecked)
    if ready.read_at is None or ready.positions is None:
        return None
    age = time.time() - datetime.fromisoformat(ready.read_at).timestamp()
    return procedure.artifacts.load(ready.positions) if 0 <= age < _JUST_NOW_SECONDS else None


def refuse_unknown_groups(procedure: Run, seen: Observation) -> None:
    """Whoever excludes a group must have meant one that moves."""
    unknown = unknown_groups(procedure.request.exclude_groups, seen.groups)
    if unknown:
        raise Refusal(
            "exclude_groups names groups that do not move",
            first_few(unknown, 20),
            "Name groups that have a position on the flow's topics; start a new procedure.",
        )


def _plan(procedure: Run, seen: Observation, groups: tuple[GroupForecast, ...]) -> Plan:
    writes = FenceScope.writes([*seen.scope, PROBE_TOPIC])
    reads = FenceScope.group_reads(seen.groups)
    exempt = procedure.exempt(seen.source.alias)
    fence = [*fence_entries(seen.source.rules, writes, exempt), *fence_entries(seen.source.rules, reads, exempt)]
    lag, ready = lag_of(seen), procedure.progress.require(ReadinessChecked)
    return Plan(
        procedure_id=procedure.id,
        dag_id=procedure.identity.dag_id,
        source=procedure.request.source,
        target=procedure.request.target,
        reason=procedure.request.reason,
        naming=seen.naming_policy,
        connectors={"source": procedure.flow.connectors.source, "checkpoint": procedure.flow.connectors.checkpoint},
        topics=tuple(
            (t, remote, seen.source.topics[t].partitions, seen.source.topics[t].topic_id)
            for t, remote in sorted(seen.scope.items())
        ),
        groups=tuple(g for g in groups if g.group not in procedure.request.exclude_groups),
        fence=tuple(str(e) for e in fence),
        opening=tuple(str(e) for e in target_opening(seen)),
        deadlines=procedure.request.deadlines.model_dump(),
        start_reverse=procedure.request.start_reverse_replication,
        lag=lag,
        drain_seconds=lag / ready.records_per_second if ready.records_per_second else None,
        unproven=tuple(ready.notes),
        excluded=_excluded(procedure, groups),
        abort_open_transactions=procedure.request.abort_open_transactions,
        cool_down=procedure.progress.cool_down,
        copies=dict(seen.copies),
    )


def _excluded(procedure: Run, groups: tuple[GroupForecast, ...]) -> tuple[ExcludedGroup, ...]:
    why = procedure.request.exclude_groups
    return tuple(
        ExcludedGroup(g.group, why[g.group], g.policy, g.partitions, g.lag, g.active) for g in groups if g.group in why
    )


def target_opening(seen: Observation) -> list[Any]:
    """DENY entries of the target that opening it will remove."""
    exempt = seen.exempt[seen.source.alias]
    return [
        entry
        for scope in (FenceScope.writes(seen.scope), FenceScope.group_reads(seen.groups))
        for entry in opening_entries(seen.target.rules, scope, client_principals(seen.source.rules, scope, exempt))
    ]


def lag_of(seen: Observation) -> int:
    """Records not replicated yet: an upper bound, since offsets without a record count too."""
    replicated = {tp: -1 if last is None else last for tp, last in seen.flow.replicated.items()}
    return sum(
        max(0, end - 1 - max(replicated.get(tp, -1), seen.source_starts[tp] - 1))
        for tp, end in seen.last.source_ends.items()
    )


def records_per_second(seen: Observation) -> float:
    """How fast the target grew between the two samples; 0 when it did not, or when there is only one."""
    grown = sum(seen.last.target_ends.values()) - sum(seen.first.target_ends.values())
    return round(grown / (seen.last.at - seen.first.at), 1) if seen.last.at > seen.first.at else 0.0


def compared_positions(seen: Observation, checkpoints: pd.DataFrame, syncs: pd.DataFrame) -> pd.DataFrame:
    """Positions on the scope's topics with what they are measured by.

    Returns:
        Beside group, topic, partition and position: lag (records to the log end); class, as expected;
        mirror_maker_rereads, the records between MirrorMaker 2's position and the log end on the target that are not
        lag: an estimate before the drain, null without its checkpoint.
    """
    held = placed(placed(seen.positions, seen.last.source_ends, "end"), seen.last.target_ends, "target_end")
    known = (
        syncs[["topic", "partition", "upstream"]]
        .drop_duplicates()
        .rename(columns={"upstream": "position"})
        .assign(synced=True)
    )
    held = held.merge(known, on=["topic", "partition", "position"], how="left")
    held = held.assign(
        end=held["end"].fillna(held["position"]),
        synced=held["synced"].eq(True),
        target_topic=held["topic"].map(seen.scope).astype(object),
    )
    held = held.merge(
        checkpoints.rename(columns={"topic": "target_topic"}), on=["group", "target_topic", "partition"], how="left"
    )
    lag = (held["end"] - held["position"]).clip(lower=0)
    rereads = (held["target_end"] - held["mirror_maker_position"] - lag).clip(lower=0)
    return held.assign(lag=lag.astype("int64"), mirror_maker_rereads=rereads.astype("Int64")).assign(
        **{"class": expected_classes(held)}
    )


def forecast_of(procedure: Run, seen: Observation, held: pd.DataFrame) -> tuple[GroupForecast, ...]:
    """What is expected for each group in scope."""
    codes, names = ranked(held["group"])
    found = held.groupby(codes)
    figures = pd.DataFrame(
        {
            "partitions": found.size(),
            "lag": found["lag"].sum(),
            "rereads": found["mirror_maker_rereads"].sum(min_count=1),
        }
    )
    known = {names[code]: (partitions, lag, rereads) for code, partitions, lag, rereads in figures.itertuples()}
    classes: dict[str, dict[str, int]] = {}
    counts = held.groupby([codes, held["class"]]).size().reset_index()
    for code, name, count in counts.itertuples(index=False):
        classes.setdefault(names[code], {})[name] = int(count)
    return tuple(
        GroupForecast(
            group=group,
            partitions=int((at := known.get(group, (0, 0, pd.NA)))[0]),
            lag=int(at[1]),
            policy=procedure.topology.policy_of(group),
            active=(view := seen.source.groups.get(group)) is not None and not view.empty,
            mirror_maker_rereads=None if pd.isna(at[2]) else int(at[2]),
            expected=classes.get(group, {}),
        )
        for group in sorted(seen.groups)
    )
