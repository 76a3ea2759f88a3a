"""Judge a drill by its journal and by its passes' evidence; write its evidence and its report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kafka_dr.actions.drill.kind import kind_of
from kafka_dr.actions.drill.moves_by_people import notice_ends_at
from kafka_dr.actions.drill.passes import PASSES
from kafka_dr.actions.evidence import file_evidence
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.drill.account import planted_faults
from kafka_dr.domain.drill.facts import (
    Deviation,
    DrillFacts,
    DrillPass,
    Integrity,
    NotDone,
    Participant,
    SignOffAnswer,
    Untouched,
)
from kafka_dr.domain.drill.section import drill_section
from kafka_dr.domain.evidence.evidence import steps_of
from kafka_dr.domain.plain_text import format_moment
from kafka_dr.domain.readiness.state import Gravity
from kafka_dr.errors import ApprovalMissing, BadInput, HookUnavailable
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.drill_run import GROUPS, TOPICS, PrivateInstallation, installation_of
from kafka_dr.procedure.entries import (
    DrillCleaned,
    DrillGivenUp,
    DrillJudged,
    DrillObserved,
    DrillSignedOff,
    PassEnded,
    ProcedureClosed,
    ReadinessBlocked,
    ReadinessChecked,
    StepNotDone,
    facts_in,
)
from kafka_dr.procedure.run import Run, opened_by
from kafka_dr.procedures import DUE_RUN, FAILOVER_DRILL
from kafka_dr.vocabulary import Entry, Outcome, Step

_PACKAGES = {"airflow": "apache-airflow", "spark": "pyspark", "confluent_kafka": "confluent-kafka"}
_DAGS = {
    Step.RUN_PLANNED_FAILOVER: "planned_failover",
    Step.RUN_FAILBACK: "failback",
    Step.RUN_UNPLANNED_FAILOVER: "unplanned_failover",
    Step.RUN_SECOND_FAILBACK: "failback",
}
_BACK = (Step.RUN_FAILBACK, Step.RUN_SECOND_FAILBACK)


def judge_drill(procedure: Run, evidence: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the `drill` section of the evidence, by what the journal has now.

    Args:
        evidence: the evidence that is about to be written; None while the drill runs.
    """
    return drill_section(_facts(procedure, evidence or {}))


def file_drill(procedure: Run, epoch: int) -> ProcedureClosed:
    """Write evidence and report of a drill, and its closing entry; a failed drill has the outcome failed."""
    if not procedure.lease.ever_held:
        return file_evidence(procedure, epoch)

    def complete(evidence: dict[str, Any]) -> dict[str, Any]:
        section = judge_drill(procedure, evidence)
        # Before the closing entry: a drill whose verdict is not noted would never count.
        _record_verdict(procedure, section, evidence["closed_at"])
        told = {key: value for key, value in evidence.items() if key != "digest"} | {"drill": section}
        if section["verdict"] == "failed":
            reasons = "; ".join(reason["text"] for reason in section["reasons"] if reason["verdict"] == "failed")
            told |= {"outcome": Outcome.FAILED.value, "reason_for_outcome": f"the drill failed: {reasons}"}
        return {**told, "digest": digest_of(told)}

    return file_evidence(procedure, epoch, complete)


def _record_verdict(procedure: Run, section: Mapping[str, Any], ended_at: str) -> None:
    """Write the note by which readiness_check knows the flow's newest drill."""
    judged = DrillJudged(
        source=procedure.request.source,
        target=procedure.request.target,
        drill_kind=section["kind"],
        verdict=section["verdict"],
        fingerprint=section["fingerprint"] or {},
        procedure_id=procedure.id,
        ended_at=ended_at,
        findings_open=[finding["id"] for finding in section["findings"] if finding["state"] == "open"],
    )
    record_fact(procedure.authority, Step.CLOSE_PROCEDURE, judged)


def drill_figures(section: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the verdict so far and its reasons, as sentences for a notice."""
    reasons = [str(reason["text"]) for reason in section["reasons"]]
    return (f"Verdict so far: {section['verdict']}.", *reasons[:5])


def drill_markdown(section: Mapping[str, Any]) -> str:
    """Return the drill's verdict so far with its reasons, passes and findings, as Markdown."""
    passes = [f"| {one['name']} | {one.get('outcome') or 'no evidence'} |" for one in section["passes"]]
    findings = [f"- `{finding['id']}` {finding.get('text', '')}" for finding in section["findings"]]
    return "\n".join(
        [
            f"Verdict so far: **{section['verdict']}**",
            "",
            *[f"- {reason['text']}" for reason in section["reasons"]],
            *(["", "| pass | outcome |", "| --- | --- |", *passes] if passes else []),
            *(["", "Findings:", *findings] if findings else []),
        ]
    )


def _facts(procedure: Run, evidence: Mapping[str, Any]) -> DrillFacts:
    progress, request, opened = procedure.progress, procedure.request, procedure.progress.opened
    observed, cleaned = progress.done(DrillObserved), progress.done(DrillCleaned)
    objectives = procedure.flow.objectives
    lines = [entry for entry in procedure.journal.entries(procedure.id) if entry.step != Step.CLOSE_PROCEDURE]
    previous = _previous_section(procedure)
    kind, starter = kind_of(procedure), _starter(procedure)
    passes = [one for step in PASSES if (one := _pass(procedure, step)) is not None]
    return DrillFacts(
        drill_id=procedure.id,
        kind=kind,
        source=request.source,
        target=request.target,
        reason=request.reason,
        started_by=_started_by(procedure, starter),
        announced=True if kind == "full" else None,
        triggered_at=opened.triggered_at if opened else None,
        closed_at=evidence.get("closed_at"),
        drill_days=objectives.drill_days,
        retest_days=objectives.retest_days,
        scope=_scope(procedure, kind, observed),
        scope_refusals=_scope_refusals(procedure),
        objectives=progress.objectives,
        outlook=observed.outlook if observed else None,
        checks=_checks(procedure),
        assumptions=_assumptions(kind),
        participants=[*_participants(procedure, starter), *_informed(evidence.get("notices") or ())],
        passes=passes,
        planted=list(planted_faults(passes)),
        deviations=_deviations(procedure, kind),
        steps=steps_of(lines, [step.value for step in Step]),
        planned_steps=[step.value for step in FAILOVER_DRILL.steps],
        not_run=_not_run(procedure),
        stopped=_stopped(procedure),
        left_over=None if cleaned is None else cleaned.left,
        untouched=None if cleaned is None or cleaned.untouched is None else Untouched(**cleaned.untouched),
        rejected=next((_rejection(fact) for fact in progress.facts(DrillSignedOff) if _is_rejection(fact)), None),
        sign_offs=[
            SignOffAnswer(signed.signed_by, signed.signed_at or "", signed.texts)
            for signed in progress.facts(DrillSignedOff)
            if signed.signed_by is not None and signed.accepted
        ],
        previous=previous.get("drill") if previous else None,
        previous_digest=previous.get("digest") if previous else None,
        fingerprint=observed.fingerprint if observed else None,
        versions=_versions(observed),
        code_digest=(observed.fingerprint.get("voiding") or {}).get("product") if observed else None,
        folder=str(procedure.artifacts.folder),
        kept_days=procedure.topology.evidence_kept_days,
        signature=_signature(procedure),
    )


def _scope(procedure: Run, kind: str, observed: DrillObserved | None) -> dict[str, Any]:
    """Return what the drill moved; of a canary drill its own names."""
    opened = procedure.progress.opened
    binding = opened.binding if opened else None
    clusters = {alias: cluster.id for alias, cluster in binding.clusters.items()} if binding else {}
    flow = f"{procedure.request.source}->{procedure.request.target}"
    if kind != "canary":
        return {"clusters": clusters, "flows": [flow], **(dict(observed.size) if observed else {})}
    private, settings = installation_of(procedure), procedure.topology.drill
    names = private.names
    return {
        "clusters": clusters,
        "flows": [flow],
        "topics": [names.topic(name) for name in TOPICS],
        "groups": [names.group(name) for name in GROUPS],
        "connectors": _connectors(private),
        "partitions": len(TOPICS) * (settings.partitions if settings else 0),
        "records": settings.records if settings else None,
        "left_out": [
            {"what": "all of production's topics and groups", "why": "a canary drill moves what it has made alone"}
        ],
    }


def _connectors(private: PrivateInstallation) -> list[str]:
    """Return the drill's own connectors; [] if the topology has no workers for drills any more."""
    try:
        return sorted({name for flow in private.topology.flows for name in flow.connectors.names})
    except BadInput:
        return []


def _scope_refusals(procedure: Run) -> list[str]:
    """Return the acts of passes that were refused because they reach beyond the drill."""
    texts = [ended.pass_reason for step in PASSES for ended in procedure.progress.facts(PassEnded, step)]
    return [text for text in texts if "outside this drill" in text]


def _checks(procedure: Run) -> list[dict[str, Any]] | None:
    blocked, checked = procedure.progress.done(ReadinessBlocked), procedure.progress.done(ReadinessChecked)
    if checked is not None:
        return []
    if blocked is None:
        return None
    return [
        {"id": one.get("gate"), "severity": Gravity.FAILED, "text": f"{one.get('reason')} ({one.get('seen')})"}
        for one in blocked.blockers
    ]


def _assumptions(kind: str) -> list[str]:
    if kind != "canary":
        return ["the flow replicates as on any other day"]
    return [
        "both clusters and production's replication work as on any other day",
        "each pass completes, no record of the drill is missing without being listed, no position is ahead",
        "production's topics, ACL entries, connectors and tasks are the same before and after",
    ]


def _is_rejection(signed: DrillSignedOff) -> bool:
    return signed.signed_by is not None and not signed.accepted


def _rejection(signed: DrillSignedOff) -> str:
    return f"{signed.signed_by}: {signed.texts.get('conclusion') or 'no reason is stated'}"


def _starter(procedure: Run) -> str | None:
    """Return the person who started the drill; None for a scheduled one, or if Airflow does not say."""
    try:
        return procedure.approvals.starter()
    except (ApprovalMissing, HookUnavailable):
        return None


def _started_by(procedure: Run, starter: str | None) -> str | None:
    if starter is not None:
        return "a person"
    return "schedule_drills" if procedure.identity.run_id.startswith(DUE_RUN) else None


def _participants(procedure: Run, starter: str | None) -> list[Participant]:
    opened = procedure.progress.opened
    signed = [
        Participant(fact.signed_by, "signed" if fact.accepted else "rejected", fact.signed_at)
        for fact in procedure.progress.facts(DrillSignedOff)
        if fact.signed_by is not None
    ]
    began = [Participant(starter, "started", opened.triggered_at if opened else None)] if starter else []
    return [*began, *signed]


def _informed(notices: Iterable[Mapping[str, Any]]) -> list[Participant]:
    """Return the routes on which a notice about the drill was delivered; who reads them, no program knows."""
    return [
        Participant(f"the people of {one['route']}", f"informed by {one['event']}", one["at"])
        for one in notices
        if one["state"] == "sent"
    ]


def _signature(procedure: Run) -> str:
    """Return what signs the journal's closing entry, which is written after the report and holds its digest."""
    keys = procedure.topology.journal.public_keys
    if not keys:
        return "none: the topology names no key under journal.public_keys"
    return "on the journal's closing entry, which holds this digest: verify_evidence --journal checks the signature"


def _pass(procedure: Run, step: Step) -> DrillPass | None:
    ended = next(iter(reversed(procedure.progress.facts(PassEnded, step))), None)
    if ended is None or not ended.ran:
        return None
    source, target = procedure.request.source, procedure.request.target
    ends = (target, source) if step in _BACK else (source, target)
    return DrillPass(
        name=step.value,
        dag_id=_DAGS[step],
        source=ends[0],
        target=ends[1],
        evidence=_read_evidence(procedure, ended.evidence),
        path=ended.evidence,
        simulated_loss=step == Step.RUN_UNPLANNED_FAILOVER,
        integrity=Integrity(**ended.integrity) if ended.integrity else None,
    )


def _deviations(procedure: Run, kind: str) -> list[Deviation]:
    """Return moves of a full drill that began before its notice time was over."""
    ends_at = notice_ends_at(procedure) if kind == "full" else None
    moves = [ended for step in PASSES for ended in procedure.progress.facts(PassEnded, step) if ended.pass_procedure]
    found = []
    for move in moves if ends_at else ():
        opened = opened_by(procedure.journal, str(move.pass_procedure))
        if opened is not None and ends_at is not None and datetime.fromisoformat(opened.triggered_at) < ends_at:
            text = f"{move.pass_procedure} began before the notice time was over, at {ends_at.isoformat()}"
            found.append(Deviation(opened.triggered_at, text))
    return found


def _read_evidence(procedure: Run, path: str | None) -> dict[str, Any] | None:
    """Return the content of an evidence file; None without one."""
    files = procedure.artifacts.files
    if path is not None and Path(path).is_relative_to(files.folder):
        files.refresh(Path(path))
    try:
        evidence: dict[str, Any] | None = json.loads(Path(path).read_text(encoding="utf-8")) if path else None
    except (OSError, ValueError):
        return None
    return evidence


def _not_run(procedure: Run) -> dict[str, str]:
    ended = ((step, one) for step in PASSES for one in procedure.progress.facts(PassEnded, step))
    return {step.value: one.why_not for step, one in ended if not one.ran}


def _stopped(procedure: Run) -> NotDone | None:
    """Return which step before the clean-up has no outcome, and why, or that the drill is given up; else None."""
    given_up = procedure.progress.done(DrillGivenUp)
    if given_up is not None:
        since = format_moment(given_up.silent_since)
        return NotDone(given_up.silent_step, f"given up: the drill has written nothing since {since}")
    for step in FAILOVER_DRILL.steps:
        if step in (Step.CLEAN_DRILL, Step.SIGN_OFF_DRILL):
            continue
        if procedure.journal.last(procedure.id, step, Entry.OUTCOME) is None:
            entries = [entry for entry in procedure.journal.entries(procedure.id) if entry.step == step]
            why = facts_in(entries, StepNotDone)
            if not why:
                return NotDone(step, "the step has no outcome: it did not begin, or its process ended")
            return NotDone(step, why[-1].reason, why[-1].seen, why[-1].next_step)
    return None


def _previous_section(procedure: Run) -> dict[str, Any] | None:
    """Return the evidence of the flow's last drill that has ended; None without one, or if it cannot be read."""
    request = procedure.request
    judged = facts_in(procedure.journal.entries(step=Step.CLOSE_PROCEDURE, kind=Entry.NOTE), DrillJudged)
    ours = [
        fact
        for fact in judged
        if (fact.source, fact.target) == (request.source, request.target) and fact.procedure_id != procedure.id
    ]
    if not ours:
        return None
    path = Path(procedure.topology.evidence) / ours[-1].procedure_id / "evidence.json"
    return _read_evidence(procedure, str(path))


def _versions(observed: DrillObserved | None) -> dict[str, str]:
    """Return the versions of what took part; what states no version is left out."""
    versions = {}
    for name, package in _PACKAGES.items():
        try:
            versions[name] = version(package)
        except PackageNotFoundError:
            continue
    items: Mapping[str, Any] = (observed.fingerprint.get("voiding") or {}) if observed else {}
    if product := items.get("product"):
        versions["switchback"] = f"code {product}"
    stated = {name: str(value) for name, value in items.items() if name.endswith((".version", ".kafka")) and value}
    return versions | stated
