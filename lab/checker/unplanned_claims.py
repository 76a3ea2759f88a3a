"""Compare the claims in an unplanned failover's evidence with what clients logged."""

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
    """Return findings if a group's row in the file of positions contradicts its commits or its target position.

    Args:
        group: the group's id.
        place: topic and partition on the source.
        at: topic and partition on the target to which `place` is mirrored.
        stand: the group's source position when the source was lost.
        claim: the row.
        target_position: the group's position on the target before any consumer started on the target; None if absent.
    """
    findings = []
    if claim.position > stand.at_most:
        findings.append(
            Finding(
                "recorded position",
                f"the file of positions has {claim.position}, the group never committed beyond {stand.at_most}",
                group,
                *place,
                claim.position,
            )
        )
    if claim.target_topic is not None and claim.target_topic != at[0]:
        findings.append(
            Finding("position", f"belongs on {at[0]}, in the file of positions on {claim.target_topic}", group, *at)
        )
    if target_position is not None and target_position != claim.target_position:
        findings.append(
            Finding(
                "position",
                f"is {target_position}, in the file of positions {claim.target_position}",
                group,
                *at,
                target_position,
            )
        )
    return findings


def unlisted_loss(evidence: Mapping[str, Any]) -> list[Finding]:
    """Return a finding per loss row of the approved plan that is no loss row of the evidence.

    A row that has grown since the approval has the approved values in its field `approved`; these are compared.
    """
    plan, names = evidence["plan"], ("topic", "partition", "from_offset", "certain_to", "possible_to")
    loss = [row | (row.get("approved") or {}) for row in evidence["loss"]]
    approved, listed = (
        [tuple(row.get(name) for name in names) for row in rows]
        for rows in (plan.get("loss", []) if isinstance(plan, Mapping) else [], loss)
    )
    return [Finding("evidence", f"loss lacks a row that was approved: {row}") for row in approved if row not in listed]


def beyond_approved(evidence: Mapping[str, Any], rereads: Mapping[str, int]) -> list[Finding]:
    """Return a finding per group that re-reads more records of one partition than the approved plan announces.

    Args:
        evidence: the evidence document, with the approved plan.
        rereads: by group, the most records that the group re-reads of one partition.
    """
    bounds = approved_bounds(evidence)
    return [
        Finding(
            "approved bound",
            f"one position of the group reads {count} records again, the approved plan announced at most {most}",
            group,
        )
        for group, count in rereads.items()
        if (most := bounds.get(group)) is not None and count > most
    ]


def approved_bounds(evidence: Mapping[str, Any]) -> dict[str, int | None]:
    """Return, by group, the approved plan's maximum of re-reads per partition; None: the plan states no maximum."""
    plan = evidence["plan"]
    return (
        {group["group"]: group.get("rereads") for group in plan.get("groups", [])} if isinstance(plan, Mapping) else {}
    )


def records_per_second(acknowledgements: Sequence[Acknowledgement]) -> int:
    """Return the records acknowledged per second, from first to last acknowledgement; 0 if both have the same time."""
    times = [acknowledgement.at for acknowledgement in acknowledgements]
    milliseconds = max(times, default=0) - min(times, default=0)
    return len(acknowledgements) * 1000 // milliseconds if milliseconds else 0
