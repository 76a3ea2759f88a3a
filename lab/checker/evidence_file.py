"""Check that the evidence file is complete, does not contradict itself, and agrees with the clusters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from lab.checker.findings import Finding, first_examples
from lab.checker.stored.stated_place import local_file

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
    "drill": type(None),
    "digest": str,
    "previous_digest": (str, type(None)),
}
#: A lost source may be fenced later, by the watcher.
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
    """Return an ISO 8601 time as milliseconds since 1970.

    Raises:
        ValueError: the text is not an ISO 8601 time with a time zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"the evidence has a time without a zone: {text!r}")
    return int(moment.timestamp() * 1000)


def offsets_by_partition(rows: list[dict[str, Any]]) -> dict[tuple[str, int], int]:
    """Return by topic and partition the offset of each row of the evidence field `cut_off` or `boundary`."""
    return {(row["topic"], int(row["partition"])): int(row["offset"]) for row in rows}


def shape_findings(
    evidence: Mapping[str, Any], fields: Mapping[str, type | tuple[type, ...]] = FIELDS
) -> list[Finding]:
    """Return a finding for every field that the evidence lacks or that has the wrong type.

    Args:
        evidence: the evidence document.
        fields: the required fields: allowed type or types by name.
    """
    findings = []
    for name, kind in fields.items():
        if name not in evidence:
            findings.append(_evidence_finding(f"field {name} is absent"))
        elif not isinstance(evidence[name], kind) or isinstance(evidence[name], bool):
            findings.append(_evidence_finding(f"field {name} is {evidence[name]!r:.80}"))
    return findings


def story_findings(
    evidence: Mapping[str, Any], source: str, target: str, approver: str | None = None, folder: Path = Path(),
    dag_id: str = "planned_failover", steps: Iterable[str] = PLANNED_STEPS,
) -> list[Finding]:  # fmt: skip
    """Return findings on the evidence of a completed planned failover or failback.

    Args:
        evidence: the evidence document; `shape_findings` must have found nothing.
        source: alias of the cluster that clients left.
        target: alias of the cluster that clients moved to.
        approver: user who must be among the approvals; None: the approvals are not checked.
        folder: the evidence's folder; paths in the evidence may be relative to this folder.
        dag_id: the procedure.
        steps: names of the steps that the evidence's field `steps` must list.
    """
    findings = _mismatch_findings(
        evidence, {"outcome": "completed", "dag_id": dag_id, "source": source, "target": target, "loss": []}
    )
    if approver is not None and approver not in json.dumps(evidence["approvals"]):
        findings.append(_evidence_finding(f"approvals do not name {approver}: {evidence['approvals']!r:.200}"))
    return findings + _plan_findings(evidence, folder) + _step_findings(evidence, steps) + _second_findings(evidence)


def lost_story_findings(
    evidence: Mapping[str, Any],
    source: str,
    target: str,
    starter: str,
    approver: str | None = None,
    folder: Path = Path(),
) -> list[Finding]:
    """Return findings on the evidence of a completed unplanned failover.

    Args:
        evidence: the evidence document; `shape_findings` must have found nothing.
        source: alias of the lost cluster.
        target: alias of the cluster that clients moved to.
        starter: user who started the run; an answer of this user is no approval.
        approver: user who must have answered the gates; None for any user except the starter.
        folder: the evidence's folder; paths in the evidence may be relative to this folder.
    """
    findings = _mismatch_findings(
        evidence, {"outcome": "completed", "dag_id": "unplanned_failover", "source": source, "target": target}
    )
    findings += _approval_findings(evidence, starter, approver)
    if not _is_digest_of({name: value for name, value in evidence.items() if name != "digest"}, evidence["digest"]):
        findings.append(_evidence_finding("digest is not the SHA-256 of the evidence's canonical JSON"))
    return (
        findings + _plan_findings(evidence, folder) + _step_findings(evidence, LOST_STEPS) + _second_findings(evidence)
    )


def figures_of(evidence: Mapping[str, Any], step: str) -> Mapping[str, Any]:
    """Return the figures of a step in the evidence; {} if the step has no row or no figures."""
    return next((row.get("figures") or {} for row in evidence.get("steps", []) if row.get("id") == step), {})


def _mismatch_findings(evidence: Mapping[str, Any], expected: Mapping[str, Any]) -> list[Finding]:
    return [
        _evidence_finding(f"{name} is {evidence[name]!r:.200}, expected {expected_value!r}")
        for name, expected_value in expected.items()
        if evidence[name] != expected_value
    ]


def _plan_findings(evidence: Mapping[str, Any], folder: Path) -> list[Finding]:
    findings = []
    if not _is_digest_of(evidence["plan"], evidence["plan_digest"]):
        findings.append(_evidence_finding("plan_digest is not the SHA-256 of the plan's canonical JSON"))
    if not local_file(folder, evidence["positions"]).exists():
        findings.append(_evidence_finding(f"no positions file at {evidence['positions']}"))
    return findings


def _approval_findings(evidence: Mapping[str, Any], starter: str, approver: str | None) -> list[Finding]:
    """Return findings on the answers to the gates approve_data_loss and review_translation.

    The last answer to approve_data_loss must name the plan's digest, that to review_translation the digest of
    `_reviewed_digest`. The starter must not have answered. review_translation needs no answer if its step asked no
    person, but it must ask if the loss has grown.

    Args:
        evidence: the evidence document.
        starter: user who started the run.
        approver: user who must have answered both gates; None: any user except the starter.
    """
    digests, asked = (
        {"approve_data_loss": evidence["plan_digest"]},
        figures_of(evidence, "review_translation").get("asked"),
    )
    if asked:
        digests["review_translation"] = _reviewed_digest(evidence)
    growth = evidence.get("loss_grown")
    findings = (
        [
            _evidence_finding(
                f"loss_grown names {len(growth)} partitions that lose more than was approved, and review_translation"
                " asked no person"
            )
        ]
        if growth and not asked
        else []
    )
    for gate, digest in digests.items():
        answers = [
            approval for approval in evidence["approvals"] if gate in (approval.get("step"), approval.get("gate"))
        ]
        for approval in answers:
            user = approval.get("by")
            if not user or user == starter or (approver is not None and user != approver):
                findings.append(
                    _evidence_finding(
                        f"{gate} was answered by {user!r}; {starter} started the run, {approver or 'a second person'}"
                        " should have answered"
                    )
                )
        # A gate that was asked a second time has an answer to the first question, too: the last answer counts.
        if not answers:
            findings.append(_evidence_finding(f"{gate} was not approved by any person"))
        elif answers[-1].get("digest") != digest:
            findings.append(
                _evidence_finding(f"{gate} was answered for {answers[-1].get('digest')!r}, not for {digest!r}")
            )
    return findings


def _reviewed_digest(evidence: Mapping[str, Any]) -> str | None:
    """Return the digest that an approval at the gate review_translation must name; None if the evidence has none.

    This is the translation's digest. If the loss has grown since approve_data_loss, it is one digest of the translation
    and of the growth together.
    """
    translation, growth = figures_of(evidence, "translate_offsets").get("digest"), evidence.get("loss_grown")
    return _digests({"translation": translation, "loss": growth})[-1] if growth else translation


def offset_findings(
    name: str, claimed: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]
) -> list[Finding]:
    """Return a finding per partition whose offset in the evidence is not the cluster's log end.

    Args:
        name: the evidence field, `cut_off` or `boundary`.
        claimed: the field's offsets, by (topic, partition).
        ends: the cluster's log ends, of the partitions to compare.
    """
    return [
        Finding(
            "evidence",
            f"{name} in the evidence is {claimed.get(at, 'missing')}, the cluster's log ends at {end}",
            topic=at[0],
            partition=at[1],
            offset=end,
        )
        for at, end in ends.items()
        if claimed.get(at) != end
    ]


def boundary_findings(
    claimed: Mapping[tuple[str, int], int],
    mirrored: Iterable[tuple[str, int]],
    ends: Mapping[tuple[str, int], int],
) -> list[Finding]:
    """Return findings on mirrored partitions without boundary, or with a boundary that is not the log end.

    Args:
        claimed: the boundaries in the evidence.
        mirrored: mirrored partitions of the target.
        ends: log ends of the mirrored partitions to which no client wrote after the target was opened.
    """
    absent = [Finding("evidence", "has no boundary", None, *at) for at in mirrored if at not in claimed]
    return absent + offset_findings("boundary", claimed, {at: end for at, end in ends.items() if at in claimed})


def count_findings(evidence: Mapping[str, Any], positions: int, rereads: int) -> list[Finding]:
    """Return findings if the evidence has fewer positions than were checked, or too low a bound of re-reads.

    Args:
        evidence: the evidence document.
        positions: number of checked positions, each of one group on one partition.
        rereads: the most records that one checked position reads again.
    """
    findings = []
    if sum(evidence["classes"].values()) < positions:
        findings.append(
            _evidence_finding(f"classes {evidence['classes']} cover fewer than the {positions} positions checked")
        )
    bound = evidence["rereads"].get("bound")
    if not isinstance(bound, int) or bound < rereads:
        findings.append(
            _evidence_finding(f"re-reads bound is {bound!r}, one position would read {rereads} records again")
        )
    return findings


def _step_findings(evidence: Mapping[str, Any], expected: Iterable[str]) -> list[Finding]:
    steps = {step.get("id"): step for step in evidence["steps"]}
    absent = [step for step in expected if step not in steps]
    findings = [_evidence_finding(f"steps without a row: {first_examples(absent)}")] if absent else []
    for name, step in steps.items():
        if step.get("state") == "failed":
            findings.append(_evidence_finding(f"step {name} failed although the outcome is {evidence['outcome']}"))
        if step.get("ended_at") and wall_clock_milliseconds(step["ended_at"]) < wall_clock_milliseconds(
            step["started_at"]
        ):
            findings.append(_evidence_finding(f"step {name} ended before it started"))
    return findings


def _second_findings(evidence: Mapping[str, Any]) -> list[Finding]:
    seconds = evidence["seconds"]
    invalid = [
        name
        for name in ("own", "drain", "people")
        if not isinstance(seconds.get(name), int | float) or seconds[name] < 0
    ]
    return [_evidence_finding(f"seconds.{name} is {seconds.get(name)!r}") for name in invalid]


def _is_digest_of(plan: Mapping[str, Any] | str, digest: str) -> bool:
    document = json.loads(Path(plan).read_text(encoding="utf-8")) if isinstance(plan, str) else plan
    return digest.removeprefix("sha256:") in _digests(document)


def _digests(value: Mapping[str, Any]) -> list[str]:
    """Return two SHA-256 of a value's canonical JSON: with non-ASCII characters escaped, and not escaped."""
    texts = (
        json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only)
        for ascii_only in (True, False)
    )
    return [sha256(text.encode()).hexdigest() for text in texts]


def _evidence_finding(text: str) -> Finding:
    return Finding("evidence", text)
