"""What the evidence of an unplanned failover claims, against what is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lab.checker.findings import Finding
from lab.checker.readers import Place
from lab.checker.translation_file import PositionClaim
from lab.checker.unplanned_observed import Stand
from lab.workload.ground_truth import Acknowledgement


def contradicting_claims(
    group: str, place: Place, at: Place, stand: Stand, claim: PositionClaim, target_position: int | None
) -> list[Finding]:
    """What the file of positions says otherwise than the truth and the target."""
    findings = []
    if claim.position > stand.at_most:
        findings.append(
            Finding(
                "recorded position",
                f"says {claim.position}, the group never committed beyond {stand.at_most}",
                group,
                *place,
                claim.position,
            )
        )
    if claim.target_topic is not None and claim.target_topic != at[0]:
        findings.append(
            Finding("position", f"belongs on {at[0]}, the file of positions says {claim.target_topic}", group, *at)
        )
    if target_position is not None and target_position != claim.target_position:
        findings.append(
            Finding(
                "position",
                f"stands at {target_position}, the file of positions says {claim.target_position}",
                group,
                *at,
                target_position,
            )
        )
    return findings


def unlisted_loss(evidence: Mapping[str, Any]) -> list[Finding]:
    """Find approved losses that are neither listed as lost nor told beside later findings; more loss is allowed."""
    plan, names = evidence["plan"], ("topic", "partition", "from_offset", "certain_to", "possible_to")
    told = [row | (row.get("approved") or {}) for row in evidence["loss"]]
    approved, listed = (
        [tuple(row.get(name) for name in names) for row in rows]
        for rows in (plan.get("loss", []) if isinstance(plan, Mapping) else [], told)
    )
    return [Finding("evidence", f"loss lacks a row that was approved: {row}") for row in approved if row not in listed]


def beyond_approved(evidence: Mapping[str, Any], again: Mapping[str, int]) -> list[Finding]:
    """Groups that read more records again, on one position, than whoever approved the loss was told."""
    told = approved_bounds(evidence)
    return [
        Finding(
            "approved bound",
            f"one of its positions reads {count} records again, at most {most} were told before the loss was approved",
            group,
        )
        for group, count in again.items()
        if (most := told.get(group)) is not None and count > most
    ]


def approved_bounds(evidence: Mapping[str, Any]) -> dict[str, int | None]:
    """How many records each group may be given again on one position, as the approved plan tells it."""
    plan = evidence["plan"]
    return (
        {group["group"]: group.get("rereads") for group in plan.get("groups", [])} if isinstance(plan, Mapping) else {}
    )


def records_per_second(told: Sequence[Acknowledgement]) -> int:
    """How many records a second were acknowledged from the first one to the last one; 0 of fewer than two moments."""
    times = [one.at for one in told]
    passed = max(times, default=0) - min(times, default=0)
    return len(told) * 1000 // passed if passed else 0
