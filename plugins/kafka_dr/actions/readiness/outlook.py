"""Forecast a failover that would begin now: loss by logs or samples, re-reads and downtime by last runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.actions.loss.last_known_state import from_archive
from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.lag import FlowLag
from kafka_dr.domain.readiness.report import CompletedRun, Outlook
from kafka_dr.errors import SwitchbackError
from kafka_dr.procedure.entries import ProcedureClosed, facts_of
from kafka_dr.procedure.run import Run, opened_by
from kafka_dr.recorder.history import PARTITION, Recorded
from kafka_dr.vocabulary import Entry, Outcome, Step

#: Completed runs by which the next one is forecast, and how many closed procedures are searched for them.
_RUNS, _SEARCHED = 3, 50


def outlook_of(procedure: Run, lag: FlowLag | None) -> Outlook:
    """Return what a failover now would cost; figures that nothing states are None, each with the reason.

    Args:
        lag: the lag by the logs; None if the source could not be read, so that the last sample of the recorder counts.
    """
    loss = _by_logs(lag) if lag is not None else _by_samples(procedure)
    runs = list(_last_runs(procedure))
    figures, at, unknown = dict(loss.figures), dict(loss.at), dict(loss.unknown)
    for name, path in (("seconds", ("seconds", "downtime")), ("rereads", ("rereads", "bound"))):
        known = [(value, e["closed_at"]) for e in runs if (value := (e.get(path[0]) or {}).get(path[1])) is not None]
        if known:
            figures[name], at[name] = max(value for value, _ in known), known[0][1]
        else:
            unknown[name] = "no completed run of this flow states it"
    return Outlook(**figures, at=at, unknown=unknown)


def last_run_of(procedure: Run) -> CompletedRun | None:
    """Return the flow's newest completed run that moved clients; None without any."""
    for e in _last_runs(procedure):
        return CompletedRun(e["procedure_id"], e["dag_id"], e["closed_at"], e["seconds"]["downtime"])
    return None


class _Loss:
    """Figures of the loss, when each was true, and why others are unknown."""

    def __init__(self) -> None:
        self.figures: dict[str, Any] = {}
        self.at: dict[str, str] = {}
        self.unknown: dict[str, str] = {}


def _by_logs(lag: FlowLag) -> _Loss:
    loss = _Loss()
    loss.figures = {"certain": lag.certain, "possible": lag.records}
    loss.at = dict.fromkeys(loss.figures, _iso(lag.at))
    return loss


def _by_samples(procedure: Run) -> _Loss:
    """Return the loss by the newest sample of the source; what the source accepted afterwards nobody knows."""
    loss, missing = _Loss(), list[str]()
    try:
        recorded = from_archive(procedure, missing)
        lost = None if recorded.source_at is None else _missing_at_least(procedure, recorded)
    except SwitchbackError as error:
        lost, missing = None, [*missing, str(error)]
    if lost is None or recorded.source_at is None:
        why = "; ".join(missing) or "the recorder has no sample of the source"
        loss.unknown = dict.fromkeys(("certain", "possible"), f"the logs cannot be compared now, and {why}")
        return loss
    at = _iso(recorded.source_at / 1000)
    loss.figures, loss.at = {"certain": lost}, {"certain": at}
    loss.unknown = {"possible": f"the logs cannot be compared now; what the source accepted after {at} is unknown"}
    return loss


def _missing_at_least(procedure: Run, recorded: Recorded) -> int:
    """Return how many source records of the last sample have no copy, at least as far as samples show it.

    The target's growth since a sample bounds what can have been copied since. By floors the bound counts offsets. A
    marker of a transaction is an offset without a record, so where pairs show such gaps, only those ranges count in
    which every offset had a record.
    """
    newest = recorded.partitions[[*PARTITION, "source_end"]].rename(columns={"source_end": "last_end"})
    partitions = [TopicPartition(topic, int(p)) for topic, p in newest[PARTITION].itertuples(index=False)]
    remote = remote_partitions(procedure, partitions)
    topics = procedure.systems.target.topics()
    there = [
        tp for tp in partitions if (to := remote[tp]).topic in topics and to.partition in topics[to.topic].partitions
    ]
    ends = procedure.systems.target.ends([remote[tp] for tp in there])
    known = newest.merge(pd.DataFrame([(*tp, ends[remote[tp]]) for tp in there], columns=[*PARTITION, "target_now"]))
    rows = recorded.floors.merge(known, on=PARTITION)
    by_floors = (rows["last_end"] - rows["source_end"]) - (rows["target_now"] - rows["target_end"])
    # As with floors: older pairs say nothing of records that the reverse flow has written since.
    recorded = replace(
        recorded, pairs=recorded.pairs[recorded.pairs["sampled_at"] >= recorded.floors["sampled_at"].min()]
    )
    with_gaps = _partitions_with_gaps(recorded.pairs)
    without = ~pd.MultiIndex.from_frame(rows[PARTITION]).isin(with_gaps)
    full = recorded.stretches.merge(known, on=PARTITION)
    gapped = pd.MultiIndex.from_frame(full[PARTITION]).isin(with_gaps)
    by_pairs = full["end"] - (full["start"] + full["target_now"] - full["downstream"])
    return _sum_of_largest(rows[without], by_floors) + _sum_of_largest(full[gapped], by_pairs)


def _partitions_with_gaps(pairs: pd.DataFrame) -> pd.MultiIndex:
    """Return the partitions of which a later pair shows more source offsets than copies since an earlier pair."""
    ordered = pairs.sort_values("sampled_at")
    ahead = (ordered["upstream"] - ordered["downstream"]).groupby([ordered[name] for name in PARTITION]).diff()
    return pd.MultiIndex.from_frame(ordered.loc[ahead > 0, PARTITION])


def _sum_of_largest(rows: pd.DataFrame, missing: pd.Series[int]) -> int:
    """Return the sum over partitions of the largest number of missing records that a row of the partition shows."""
    return int(missing.loc[rows.index].clip(lower=0).groupby([rows[name] for name in PARTITION]).max().sum())


def _last_runs(procedure: Run) -> Iterator[dict[str, Any]]:
    """Yield the evidence of the newest completed runs that moved clients from this source to this target."""
    closed = facts_of(procedure.journal.entries(step=Step.CLOSE_PROCEDURE, kind=Entry.CLOSED), ProcedureClosed)
    completed = [entry.procedure_id for entry, fact in closed if fact.outcome == Outcome.COMPLETED]
    found = 0
    for procedure_id in list(dict.fromkeys(reversed(completed)))[:_SEARCHED]:
        opened = opened_by(procedure.journal, procedure_id)
        request = procedure.request
        if opened is None or (opened.source, opened.target) != (request.source, request.target):
            continue
        evidence = _evidence_of(procedure, procedure_id)
        if (evidence.get("seconds") or {}).get("downtime") is not None:
            found += 1
            yield evidence
        if found == _RUNS:
            return


def _evidence_of(procedure: Run, procedure_id: str) -> dict[str, Any]:
    path = Path(procedure.topology.evidence) / procedure_id / "evidence.json"
    procedure.artifacts.files.refresh(path)
    try:
        evidence: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return evidence


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
