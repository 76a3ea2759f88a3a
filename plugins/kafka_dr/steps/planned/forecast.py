"""Forecast what the run will do, how long the drain will take, and how the groups' positions will be translated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_dr.actions.access.site_differences import keep_differences
from kafka_dr.actions.readiness.logged_clients import read_logged_clients
from kafka_dr.actions.readiness.observe import observe_pair
from kafka_dr.actions.readiness.plan import (
    compared_positions,
    forecast_of,
    lag_of,
    positions_read_just_now,
    refuse_unknown_groups,
    target_opening,
)
from kafka_dr.actions.scope.flow_scope import flows_of_move, notes_on_stay
from kafka_dr.actions.scope.internal_topics import checkpoints_of, offset_syncs_of
from kafka_dr.actions.scope.offset_option import option_of
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.clients.inventory import list_clients
from kafka_dr.domain.clients.logged_clients import logged_notes
from kafka_dr.domain.fencing.fence import FenceScope, count_modes, fence_changes
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.domain.readiness.plan import ExcludedGroup, FailoverPlan, GroupForecast
from kafka_dr.procedure.binding import terms_of
from kafka_dr.procedure.entries import FailoverForecast, ReadinessChecked
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class Forecast(ProcedureStep):
    """Write the plan, which states what the run will do and what it will cost; approvals name the plan's digest."""

    def act(self, procedure: Run, context: Any) -> FailoverForecast:
        """Observe both clusters again; return the plan and its digest. Nothing is changed on either cluster."""
        observed = observe_pair(procedure, {}, apart=0, held=positions_read_just_now(procedure))
        refuse_unknown_groups(procedure, observed)
        positions = compared_positions(observed, checkpoints_of(procedure), offset_syncs_of(procedure))
        groups = forecast_of(procedure, observed, positions)
        reads = set(zip(positions["group"], positions["topic"], strict=True))
        plan = replace(
            _build_plan(procedure, observed, groups), flows=flows_of_move(procedure, lost=False, reads=reads)
        ).as_dict()
        return FailoverForecast(
            plan_file=procedure.artifacts.save_json("plan", plan),
            plan_digest=digest_of(plan),
            active_groups=sorted(
                g.group for g in groups if g.active and g.group not in procedure.request.exclude_groups
            ),
            end_sum=sum(observed.last.source_ends.values()),
        )


def _build_plan(procedure: Run, observed: Observation, groups: tuple[GroupForecast, ...]) -> FailoverPlan:
    writes = FenceScope.writes([*observed.scope, procedure.systems.own_names.probe])
    reads = FenceScope.group_reads(observed.groups, procedure.source_stays_open)
    scopes = (reads,) if procedure.source_stays_open else (writes, reads)
    exempt = procedure.exempt(observed.source.alias)
    existing = {"topic": observed.source.topics, "group": observed.source.groups}
    fences = [fence_changes(observed.source.rules, scope, exempt, existing[scope.resource_type]) for scope in scopes]
    opening = target_opening(procedure, observed)
    lag, ready = lag_of(observed), procedure.progress.require(ReadinessChecked)
    logged = read_logged_clients(procedure, observed)
    return FailoverPlan(
        procedure_id=procedure.id,
        dag_id=procedure.identity.dag_id,
        source=procedure.request.source,
        target=procedure.request.target,
        reason=procedure.request.reason,
        naming=observed.naming_policy,
        connectors=procedure.flow.connectors.by_kind,
        topics=tuple(
            (t, remote, observed.source.topics[t].partitions, observed.source.topics[t].topic_id)
            for t, remote in sorted(observed.scope.items())
        ),
        groups=tuple(g for g in groups if g.group not in procedure.request.exclude_groups),
        fence=tuple(str(entry) for fence in fences for entry in fence.added),
        fence_removes=tuple(str(entry) for fence in fences for entry in fence.replaced),
        fence_modes=count_modes(fences),
        opening=tuple(map(str, opening.removes)),
        opening_adds=tuple(map(str, opening.grants)),
        denials=tuple(map(str, opening.denials)),
        deadlines=procedure.request.deadlines.model_dump(),
        start_reverse=procedure.request.start_reverse_replication,
        lag=lag,
        drain_seconds=lag / ready.records_per_second if ready.records_per_second else None,
        unproven=(*ready.notes, *logged_notes(logged, observed.has_fence_hook), *notes_on_stay(procedure)),
        excluded=_list_excluded(procedure, groups),
        abort_open_transactions=procedure.request.abort_open_transactions,
        cool_down=procedure.progress.cool_down,
        copies=dict(observed.copies),
        terms=terms_of(procedure),
        objectives=procedure.progress.objectives,
        offset_option=option_of(procedure, observed.flow),
        clients=list_clients(replace(observed.clients, logged=logged)),
        access=ready.access or {},
        differences=keep_differences(procedure, observed),
    )


def _list_excluded(procedure: Run, groups: tuple[GroupForecast, ...]) -> tuple[ExcludedGroup, ...]:
    why = procedure.request.exclude_groups
    return tuple(
        ExcludedGroup(g.group, why[g.group], g.policy, g.partitions, g.lag, g.active) for g in groups if g.group in why
    )
