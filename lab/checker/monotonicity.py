"""Compare two unplanned failovers of the same lost source: the run with less recorded data must not claim more.

The run with more recorded data is called the fuller run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.checker.findings import Finding
from lab.checker.translation_file import REFUSED, Row

#: Translation classes, from the strongest claim on a position to no claim.
CLASSES = ("END", "SYNC", "CONTENT", "INTERPOLATED", "NEAREST", "POLICY", REFUSED)
#: Higher than every offset; used where a row has no bound.
ANYWHERE = 1 << 63


def bolder_positions(fuller: Iterable[Row], rows: Iterable[Row], sampled: bool = True) -> list[Finding]:
    """Return a finding for every position with a stronger claim than in the fuller run.

    A claim is stronger if the fuller run lacks or refuses the position, if the source position is higher, or if only
    this claim is exact. For equal source positions it is also stronger if its re-reads end at a lower target offset;
    re-reads end at the target position plus the bound.

    Args:
        fuller: rows of the file of positions of the run with more recorded data.
        rows: rows of the file of positions of the run with less recorded data.
        sampled: True: both runs had samples of a flight recorder; a higher target position or a better translation
            class is then a finding, too. False: target positions come from offset syncs alone and may be higher.
    """
    fuller_rows = {_place(row): row for row in fuller}
    return [
        Finding("bolder", text, *_place(row), row["target_position"])
        for row in rows
        for text in _stronger_claims(fuller_rows.get(_place(row)), row, sampled)
    ]


def higher_positions(fuller: Iterable[Row], rows: Iterable[Row]) -> list[Row]:
    """Return the rows whose target position is higher than that of the same group and partition in the fuller run."""
    fuller_positions = {_place(row): row["target_position"] for row in fuller}
    return [
        row
        for row in rows
        if None not in (fuller_positions.get(_place(row)), row["target_position"])
        and row["target_position"] > fuller_positions[_place(row)]
    ]


def bolder_losses(fuller: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Return findings on loss rows that claim more than the fuller run's: a smaller loss, or more certain loss.

    Args:
        fuller: loss rows of the run with more recorded data.
        rows: loss rows of the run with less recorded data.
    """
    rows_by_partition = {(row["topic"], row["partition"]): row for row in rows}
    findings = []
    for fuller_row in fuller:
        place = (fuller_row["topic"], fuller_row["partition"])
        row = rows_by_partition.get(place)
        if row is None:
            findings.append(
                Finding("bolder", "loses records, but the run with less information claims no loss", None, *place)
            )
            continue
        findings += [
            Finding("bolder", text, None, *place, row["from_offset"]) for text in _stronger_loss_claims(fuller_row, row)
        ]
    return findings


def bolder_groups(
    fuller: Iterable[Mapping[str, Any]], groups: Iterable[Mapping[str, Any]], higher: Iterable[Row] = ()
) -> list[Finding]:
    """Return a finding for every group whose plan announces fewer re-reads than in the fuller run.

    Args:
        fuller: groups in the plan of the fuller run.
        groups: groups in the plan of the run with less recorded data.
        higher: rows whose target position may be higher than in the fuller run. Groups with such a row are left out,
            because a group re-reads less from a higher position; `bolder_positions` compares their rows.
    """
    rereads = {group["group"]: group["rereads"] for group in fuller}
    compared = rereads.keys() - {row["group"] for row in higher}
    return [
        Finding(
            "bolder",
            f"the plan announced {group['rereads']} records to be read again, and {rereads[group['group']]} in the run"
            " with more information",
            group["group"],
        )
        for group in groups
        if group["group"] in compared and _limit(group["rereads"]) < _limit(rereads[group["group"]])
    ]


def _stronger_claims(fuller: Row | None, row: Row, sampled: bool) -> list[str]:
    if fuller is None:
        return ["the run with more information has no such position"]
    texts = (
        [f"its position {row['position']} is above {fuller['position']}, the recorded position"]
        if row["position"] > fuller["position"]
        else []
    )
    if row["target_position"] is None:
        return texts
    if fuller["target_position"] is None:
        return [*texts, f"target position {row['target_position']}, but {REFUSED} in the run with more information"]
    texts += (
        [f"is exact, but not in the run with more information: {row['evidence']}"]
        if row["exact"] and not fuller["exact"]
        else []
    )
    # Re-reads can be compared only if both runs state the same source position of the group.
    if row["position"] == fuller["position"] and _rereads_end(row) < _rereads_end(fuller):
        texts.append(
            f"reads nothing again from {_rereads_end(row)} on, but from {_rereads_end(fuller)} on in the run with more"
            " information"
        )
    if sampled and row["target_position"] > fuller["target_position"]:
        texts.append(
            f"target position above {fuller['target_position']}, that of the run with more information:"
            f" {row['evidence']}"
        )
    if sampled and CLASSES.index(row["class"]) < CLASSES.index(fuller["class"]):
        texts.append(f"is {row['class']}, but {fuller['class']} in the run with more information")
    return texts


def _stronger_loss_claims(fuller: Mapping[str, Any], row: Mapping[str, Any]) -> list[str]:
    texts = []
    if row["from_offset"] > fuller["from_offset"]:
        texts.append(
            f"loses nothing below {row['from_offset']}, but from {fuller['from_offset']} on in the run with more"
            " information"
        )
    certain = row["certain_to"] is not None and row["certain_to"] > row["from_offset"]
    if certain and not (
        fuller["certain_to"] is not None
        and fuller["from_offset"] <= row["from_offset"]
        and row["certain_to"] <= fuller["certain_to"]
    ):
        texts.append(
            f"certainly loses records up to {row['certain_to']}, but from {fuller['from_offset']} up to"
            f" {fuller['certain_to']} in the run with more information"
        )
    if _limit(row["possible_to"]) < _limit(fuller["possible_to"]):
        texts.append(
            f"loses nothing from {row['possible_to']} on, but up to {fuller['possible_to']} in the run with more"
            " information"
        )
    return texts


def _place(row: Row) -> tuple[str, str, int]:
    return row["group"], row["topic"], row["partition"]


def _rereads_end(row: Row) -> int:
    """Return the target offset at which the group's re-reads end at the latest, by the row's bound."""
    return ANYWHERE if row["bound"] is None else row["target_position"] + row["bound"]


def _limit(number: int | None) -> int:
    return ANYWHERE if number is None else number
