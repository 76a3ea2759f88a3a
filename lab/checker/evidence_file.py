"""Whether the evidence file says everything it must, and nothing that the clusters deny."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from lab.checker.findings import Finding, first_examples

FIELDS: dict[str, type | tuple[type, ...]] = {
    "procedure_id": str,
    "dag_id": str,
    "source": str,
    "target": str,
    "reason": str,
    "outcome": str,
    "plan": (dict, str),
    "plan_digest": str,
    "approvals": list,
    "steps": list,
    "fenced_at": str,
    "cut_off": list,
    "boundary": list,
    "classes": dict,
    "rereads": dict,
    "repeats": (int, dict, list),
    "loss": list,
    "positions": str,
    "stranded": (str, type(None)),
    "seconds": dict,
    "digest": str,
    "previous_digest": (str, type(None)),
}
#: A lost source may be fenced later, by a watcher that waits for it.
LOST_FIELDS = {**FIELDS, "fenced_at": (str, type(None))}
PLANNED_STEPS = (
    "open_procedure", "check_readiness", "forecast", "approve_failover", "fence_producers", "drain_consumers",
    "wait_for_zero_lag", "stop_mirror_maker", "translate_offsets", "review_translation", "commit_groups",
    "seed_reverse_replication", "open_target", "redirect_clients", "verify_clients",
)  # fmt: skip


LOST_STEPS = (
    "open_procedure",
    "confirm_source_lost",
    "assess_data_loss",
    "approve_data_loss",
    "fence_source",
    "stop_mirror_maker",
    "translate_offsets",
    "review_translation",
    "commit_groups",
    "open_target",
    "redirect_clients",
    "verify_clients",
)


FAILBACK_STEPS = (
    "open_procedure", "fence_returned_cluster", "find_stranded_records", "decide_stranded_records", "prepare_topics",
    "reconcile_stranded_records", "seed_flow_back", "start_flow_back", "wait_for_catch_up", *PLANNED_STEPS[1:],
)  # fmt: skip


def wall_clock_milliseconds(text: str) -> int:
    """Return an ISO 8601 time as wall-clock milliseconds; a time without a zone is refused."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"time without a zone: {text!r}")
    return int(moment.timestamp() * 1000)


def offsets_by_partition(rows: list[dict[str, Any]]) -> dict[tuple[str, int], int]:
    """Return the rows of `cut_off` or `boundary` by topic and partition."""
    return {(row["topic"], int(row["partition"])): int(row["offset"]) for row in rows}


def shape_findings(
    evidence: Mapping[str, Any], fields: Mapping[str, type | tuple[type, ...]] = FIELDS
) -> list[Finding]:
    """Return a finding for every field that is absent or of the wrong kind."""
    findings = []
    for name, kind in fields.items():
        if name not in evidence:
            findings.append(_evidence(f"field {name} is absent"))
        elif not isinstance(evidence[name], kind) or isinstance(evidence[name], bool):
            findings.append(_evidence(f"field {name} is {evidence[name]!r:.80}"))
    return findings


def story_findings(
    evidence: Mapping[str, Any], source: str, target: str, approver: str | None = None, folder: Path = Path(),
    dag_id: str = "planned_failover", steps: Iterable[str] = PLANNED_STEPS,
) -> list[Finding]:  # fmt: skip
    """Return findings where the evidence of a completed procedure with a readable source is not as it must be.

    Args:
        evidence: a document without shape findings.
        source: alias clients came from.
        target: alias clients went to.
        approver: user who must stand among the approvals, None when nobody was asked.
        folder: where the evidence lies; its paths may be relative to it.
        dag_id: the procedure.
        steps: that it must have done.
    """
    findings = _unexpected(
        evidence, {"outcome": "completed", "dag_id": dag_id, "source": source, "target": target, "loss": []}
    )
    if approver is not None and approver not in json.dumps(evidence["approvals"]):
        findings.append(_evidence(f"approvals do not name {approver}: {evidence['approvals']!r:.200}"))
    return findings + _plan_findings(evidence, folder) + _step_findings(evidence, steps) + _second_findings(evidence)


def lost_story_findings(
    evidence: Mapping[str, Any],
    source: str,
    target: str,
    starter: str,
    approver: str | None = None,
    folder: Path = Path(),
) -> list[Finding]:
    """Return findings where a completed unplanned failover's evidence is wrong; arguments as of `story_findings`.

    Args:
        starter: user who started the run, and whose answer approves nothing.
    """
    findings = _unexpected(
        evidence, {"outcome": "completed", "dag_id": "unplanned_failover", "source": source, "target": target}
    )
    findings += _approval_findings(evidence, starter, approver)
    if not _is_digest_of({name: value for name, value in evidence.items() if name != "digest"}, evidence["digest"]):
        findings.append(_evidence("digest is not the SHA-256 of the evidence's canonical JSON"))
    return (
        findings + _plan_findings(evidence, folder) + _step_findings(evidence, LOST_STEPS) + _second_findings(evidence)
    )


def figures_of(evidence: Mapping[str, Any], step: str) -> Mapping[str, Any]:
    """Return what a step measured; nothing where it has no row."""
    return next((row.get("figures") or {} for row in evidence.get("steps", []) if row.get("id") == step), {})


def _unexpected(evidence: Mapping[str, Any], expected: Mapping[str, Any]) -> list[Finding]:
    return [
        _evidence(f"{name} is {evidence[name]!r:.200}, expected {wanted!r}")
        for name, wanted in expected.items()
        if evidence[name] != wanted
    ]


def _plan_findings(evidence: Mapping[str, Any], folder: Path) -> list[Finding]:
    findings = []
    if not _is_digest_of(evidence["plan"], evidence["plan_digest"]):
        findings.append(_evidence("plan_digest is not the SHA-256 of the plan's canonical JSON"))
    if not (folder / evidence["positions"]).exists():
        findings.append(_evidence(f"no positions file at {evidence['positions']}"))
    return findings


def _approval_findings(evidence: Mapping[str, Any], starter: str, approver: str | None) -> list[Finding]:
    """What was approved must be this very plan and this very translation, and by a second person."""
    bound_to, asked = (
        {"approve_data_loss": evidence["plan_digest"]},
        figures_of(evidence, "review_translation").get("asked"),
    )
    if asked:
        bound_to["review_translation"] = _reviewed_digest(evidence)
    grown = evidence.get("loss_grown")
    findings = (
        [
            _evidence(
                f"loss_grown names {len(grown)} partitions that lose more than was approved, and review_translation"
                " asked nobody"
            )
        ]
        if grown and not asked
        else []
    )
    for gate, digest in bound_to.items():
        given = [approval for approval in evidence["approvals"] if gate in (approval.get("step"), approval.get("gate"))]
        for approval in given:
            by = approval.get("by")
            if not by or by == starter or (approver is not None and by != approver):
                findings.append(
                    _evidence(
                        f"{gate} was answered by {by!r}; {starter} started the run, {approver or 'a second person'}"
                        " should have answered"
                    )
                )
        # What was asked anew has answers to the earlier question, too: the last one counts.
        if not given:
            findings.append(_evidence(f"{gate} was approved by nobody"))
        elif given[-1].get("digest") != digest:
            findings.append(_evidence(f"{gate} was answered for {given[-1].get('digest')!r}, not for {digest!r}"))
    return findings


def _reviewed_digest(evidence: Mapping[str, Any]) -> str | None:
    """What the review's answer must name: the translation, and what more is lost than was approved where that is so."""
    translation, grown = figures_of(evidence, "translate_offsets").get("digest"), evidence.get("loss_grown")
    return _digests({"translation": translation, "loss": grown})[-1] if grown else translation


def offset_findings(
    name: str, claimed: Mapping[tuple[str, int], int], seen: Mapping[tuple[str, int], int]
) -> list[Finding]:
    """Return a finding for every partition whose claimed end is not the one seen on the cluster."""
    return [
        Finding(
            "evidence",
            f"{name} says {claimed.get(at, 'nothing')}, the cluster's log ends at {end}",
            topic=at[0],
            partition=at[1],
            offset=end,
        )
        for at, end in seen.items()
        if claimed.get(at) != end
    ]


def boundary_findings(
    claimed: Mapping[tuple[str, int], int],
    mirrored: Iterable[tuple[str, int]],
    seen: Mapping[tuple[str, int], int],
) -> list[Finding]:
    """Return findings where a mirrored partition has no boundary, or one that is not the log's end.

    Args:
        claimed: the boundary as the evidence tells it.
        mirrored: partitions of the target that hold what clients wrote on the source.
        seen: ends of those among them to which nobody has written since.
    """
    absent = [Finding("evidence", "has no boundary", None, *at) for at in mirrored if at not in claimed]
    return absent + offset_findings("boundary", claimed, {at: end for at, end in seen.items() if at in claimed})


def count_findings(evidence: Mapping[str, Any], positions: int, rereads: int) -> list[Finding]:
    """Return findings where fewer positions are accounted for, or more is read again, than the evidence says."""
    findings = []
    if sum(evidence["classes"].values()) < positions:
        findings.append(_evidence(f"classes {evidence['classes']} cover fewer than the {positions} positions judged"))
    bound = evidence["rereads"].get("bound")
    if not isinstance(bound, int) or bound < rereads:
        findings.append(_evidence(f"re-reads bound is {bound!r}, one position would read {rereads} records again"))
    return findings


def _step_findings(evidence: Mapping[str, Any], expected: Iterable[str]) -> list[Finding]:
    steps = {step.get("id"): step for step in evidence["steps"]}
    absent = [step for step in expected if step not in steps]
    findings = [_evidence(f"steps without a row: {first_examples(absent)}")] if absent else []
    for name, step in steps.items():
        if step.get("state") == "failed":
            findings.append(_evidence(f"step {name} failed although the outcome is {evidence['outcome']}"))
        if step.get("ended_at") and wall_clock_milliseconds(step["ended_at"]) < wall_clock_milliseconds(
            step["started_at"]
        ):
            findings.append(_evidence(f"step {name} ended before it started"))
    return findings


def _second_findings(evidence: Mapping[str, Any]) -> list[Finding]:
    seconds = evidence["seconds"]
    wrong = [
        name
        for name in ("own", "drain", "people")
        if not isinstance(seconds.get(name), int | float) or seconds[name] < 0
    ]
    return [_evidence(f"seconds.{name} is {seconds.get(name)!r}") for name in wrong]


def _is_digest_of(plan: Mapping[str, Any] | str, digest: str) -> bool:
    document = json.loads(Path(plan).read_text(encoding="utf-8")) if isinstance(plan, str) else plan
    return digest.removeprefix("sha256:") in _digests(document)


def _digests(value: Mapping[str, Any]) -> list[str]:
    """Return the SHA-256 of canonical JSON, with other characters than ASCII escaped, and as they are."""
    texts = (
        json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only)
        for ascii_only in (True, False)
    )
    return [sha256(text.encode()).hexdigest() for text in texts]


def _evidence(text: str) -> Finding:
    return Finding("evidence", text)
