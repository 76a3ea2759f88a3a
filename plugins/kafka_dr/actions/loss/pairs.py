"""The pairs of a lost cluster: their runs of unplanned_failover, and the common plan over these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from kafka_dr.domain.fencing.armed_fence import MOVING, last_moves
from kafka_dr.domain.flow_graph.graph import FlowGraph
from kafka_dr.domain.flow_graph.lost_hub import lost_cluster_section, two_writers
from kafka_dr.domain.loss.lost_cluster import LostClusterPlan, PairClaims, PairPart, forbidden_ends, left_behind
from kafka_dr.domain.mirror_maker.patterns import list_items
from kafka_dr.errors import NotReady, Refusal, SystemUnavailable
from kafka_dr.procedure.binding import terms_of
from kafka_dr.procedure.entries import DataLossAssessed, PairRun, PairsStarted, ProcedureClosed
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Identity, Run
from kafka_dr.procedures import UNPLANNED_FAILOVER
from kafka_dr.vocabulary import Entry, Outcome, Step

_ANSWER_SECONDS, _MOST_ROWS = 5.0, 20
#: Outcomes after which a run cannot be resumed, and has moved no client.
_RETURNED = frozenset({Outcome.RETURNED, Outcome.REFUSED, Outcome.ABORTED})
#: Params of a run of lost_cluster that its pairs' runs get, too.
_HANDED_ON = ("acknowledge_cool_down", "acknowledge_owner", "override_source_lost")


def pair_runs(procedure: Run) -> tuple[PairRun, ...]:
    """Return the pairs' runs, whose ids follow from the procedure's: that of the routing record's cluster first."""
    request = procedure.request
    targets = (request.target, *list_items(request.choices.get("other_targets", "")))
    return tuple(PairRun(target, f"{procedure.id}__{target}") for target in targets)


def procedure_id_of(pair: PairRun) -> str:
    """Return the procedure id of a pair's run."""
    return Identity(UNPLANNED_FAILOVER.dag_id, pair.run_id).procedure_id


def params_of_pair(procedure: Run, pair: PairRun) -> dict[str, Any]:
    """Return the params with which a pair's run is started: deadlines and choices are those of the procedure."""
    request = procedure.request
    stated = procedure.topology.deadlines.model_dump()
    deadlines = {key: value for key, value in request.deadlines.model_dump().items() if value != stated[key]}
    choices = {key: request.choices[key] for key in _HANDED_ON if key in request.choices}
    return {
        "source": request.source,
        "target": pair.target,
        "reason": request.reason,
        "common_plan": procedure.id,
        **deadlines,
        **choices,
    }


def refuse_forbidden_ends(procedure: Run) -> None:
    """Refuse targets at which the move must not end, before any run of a pair is started.

    Raises:
        NotReady: a target is itself lost, clients of a target or of the lost cluster were moved elsewhere before, or
            two targets would take writes for the same topics.
    """
    lost, targets = procedure.request.source, [pair.target for pair in pair_runs(procedure)]
    moves = last_moves(procedure.journal.entries_of_steps(MOVING)).values()
    problems = [
        f"{move.procedure_id} moved the clients of {move.source} to {move.target}"
        for move in moves
        if (move.source in targets and move.target != lost) or (move.source == lost and move.target not in targets)
    ]
    problems += [f"{target} does not answer" for target in targets if not _answers(procedure, target)]
    problems += two_writers(procedure.topology.graph, lost, targets)
    _refuse(problems)


def _answers(procedure: Run, alias: str) -> bool:
    try:
        return bool(procedure.systems.cluster(alias).brokers(timeout=_ANSWER_SECONDS))
    except SystemUnavailable:
        return False


def _refuse(problems: Iterable[str]) -> None:
    if listed := list(problems):
        raise NotReady(
            "The move of the lost cluster's clients would end in a forbidden state",
            "; ".join(listed),
            "No client was moved, and the runs that were started end by themselves. Start a new run with other targets,"
            " or with one target alone.",
        )


def wait_for_assessments(procedure: Run) -> dict[str, Run]:
    """Return target -> the pair's run, each with its assessment of the loss; for `Progress.wait`.

    Raises:
        NotYet: a run has not written its plan yet.
        Refusal: a run has ended, or its assessment failed.
    """
    pairs = started_pairs(procedure)
    runs = {pair.target: procedure.other(procedure_id_of(pair)) for pair in pairs}
    ended = [ended for pair in pairs if (ended := _why_ended(procedure, pair))]
    if ended:
        raise Refusal(
            "A pair of the lost cluster cannot be moved",
            "; ".join(ended),
            "No client was moved, and the runs of the other pairs end by themselves. Correct the cause that this run's"
            " page gives; then start a new run, or one without this pair.",
        )
    waiting = [target for target, run in runs.items() if run is None or run.progress.done(DataLossAssessed) is None]
    if waiting:
        raise NotYet(f"the loss is not assessed yet: {', '.join(waiting)}")
    return {target: run for target, run in runs.items() if run is not None}


def started_pairs(procedure: Run) -> tuple[PairRun, ...]:
    """Return the pairs whose runs were started."""
    return tuple(procedure.progress.require(PairsStarted).pairs)


def _why_ended(procedure: Run, pair: PairRun) -> str:
    closed = procedure.journal.last(procedure_id_of(pair), Step.CLOSE_PROCEDURE, Entry.CLOSED)
    if closed is None:
        return ""
    fact = ProcedureClosed.from_payload(closed.payload)
    return f"{procedure_id_of(pair)}: {fact.outcome} at {fact.failing_step}: {fact.reason_for_outcome}"


def plan_of_pairs(procedure: Run, runs: Mapping[str, Run]) -> LostClusterPlan:
    """Return the common plan over the plans of all pairs.

    Raises:
        NotReady: two pairs would serve one group in the same topics, or take writes for the same topics.
        Contradiction: a pair's plan or file does not match its digest.
    """
    request, targets = procedure.request, list(runs)
    claims = [_claims_of(target, run) for target, run in runs.items()]
    _refuse(forbidden_ends(claims, procedure.topology.graph.loops_possible))
    graph = _graph_before_loss(procedure, targets)
    return LostClusterPlan(
        procedure_id=procedure.id,
        source=request.source,
        target=request.target,
        reason=request.reason,
        naming=procedure.topology.naming.policy,
        pairs=tuple(_part_of(procedure, run, claim) for run, claim in zip(runs.values(), claims, strict=True)),
        left=left_behind(claims),
        flows=lost_cluster_section(graph, procedure.naming, request.source, targets),
        cool_down=procedure.progress.cool_down,
        terms=terms_of(procedure),
    )


def _graph_before_loss(procedure: Run, targets: Iterable[str]) -> FlowGraph:
    """Return the topology's graph; of two flows that run in turn, the one after the last move of clients leads."""
    graph, lost = procedure.topology.graph, procedure.request.source
    for move in last_moves(procedure.journal.entries_of_steps(MOVING)).values():
        if move.target == lost and move.source in targets:
            graph = graph.led_by(lost, move.source)
    return graph


def _claims_of(target: str, run: Run) -> PairClaims:
    rows, planned = _positions_of(run), run.progress.move().planned
    has = rows["target_position"].notna() if "target_position" in rows else pd.Series(True, index=rows.index)
    placed = _reads(rows[has])
    opened = frozenset(moved.remote for moved in planned.topics)
    return PairClaims(target, placed, _reads(rows) - placed, opened)


def _positions_of(run: Run) -> pd.DataFrame:
    """Return the translated positions; without an early translation, the positions on the source."""
    assessed = run.progress.require(DataLossAssessed)
    return run.artifacts.load(assessed.translated_ahead or assessed.positions)


def _reads(rows: pd.DataFrame) -> frozenset[tuple[str, str]]:
    return frozenset(zip(map(str, rows["group"]), map(str, rows["topic"]), strict=True))


def _part_of(procedure: Run, run: Run, claim: PairClaims) -> PairPart:
    moved, early = run.progress.move(), run.progress.require(DataLossAssessed).translated_ahead
    plan, rows = moved.whole_plan, _positions_of(run)
    cluster = procedure.topology.cluster(run.request.target)
    return PairPart(
        procedure_id=run.id,
        target=run.request.target,
        plan_digest=moved.plan_digest,
        routes=run.request.target == procedure.request.target,
        servers=str(procedure.systems.connections.kafka(cluster.connection)["bootstrap.servers"]),
        certain=plan["inventory"]["certain"],
        possible=plan["inventory"]["possible"],
        from_others=_written_elsewhere(procedure, plan["loss"]),
        groups=sorted({group for group, _ in claim.placed}),
        topics=len(plan["topics"]),
        translation=None
        if early is None
        else {
            "digest": early.digest,
            "classes": dict(early.classes),
            "positions": len(rows),
            "exact": int(rows["exact"].sum()),
        },
        inexact=() if early is None else _inexact_rows(rows),
    )


def _written_elsewhere(procedure: Run, loss: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return topic of the lost cluster -> the other cluster where its records were written, of the rows of loss."""
    written = {row["topic"]: procedure.naming.source_alias(row["topic"]) for row in loss}
    return {topic: alias for topic, alias in sorted(written.items()) if alias not in (None, procedure.request.source)}


def _inexact_rows(rows: pd.DataFrame) -> tuple[tuple[str, ...], ...]:
    worst = rows[~rows["exact"]].sort_values("bound", ascending=False, na_position="first").head(_MOST_ROWS)
    return tuple(
        (
            str(row["group"]),
            f"{row['topic']}-{row['partition']}",
            *(str(row[name]) for name in ("position", "target_position", "class", "bound", "evidence")),
        )
        for row in worst.to_dict("records")
    )


def wait_for_ends(procedure: Run) -> dict[str, ProcedureClosed]:
    """Return procedure id -> how the pair's run ended, of all pairs; for `Progress.wait`.

    Raises:
        NotYet: a run has not ended; the text names its newest step.
    """
    closings, running = {}, []
    for pair in started_pairs(procedure):
        name = procedure_id_of(pair)
        entries = procedure.journal.entries(name)
        closed = entries[-1] if entries and entries[-1].kind == Entry.CLOSED else None
        if closed is None:
            running.append(f"{pair.target}: {entries[-1].step if entries else 'not begun'}")
        else:
            closings[name] = ProcedureClosed.from_payload(closed.payload)
    if running:
        raise NotYet("; ".join(running))
    return closings


def is_final(outcome: str) -> bool:
    """Whether a run that ended so can neither be resumed, nor has moved clients."""
    return Outcome(outcome) in _RETURNED
