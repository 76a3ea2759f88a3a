"""Compare two runs of one accident: the run that knew less may claim no more than the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.checker.findings import Finding
from lab.checker.translation_file import REFUSED, Row

#: From the strongest claim to none.
CLASSES = ("END", "SYNC", "CONTENT", "INTERPOLATED", "NEAREST", "POLICY", REFUSED)
#: Above every offset: what has no bound reaches anywhere.
ANYWHERE = 1 << 63


def bolder_positions(fuller: Iterable[Row], rows: Iterable[Row], sampled: bool = True) -> list[Finding]:
    """Return a finding for every position of which more is claimed than where more was known.

    A group may not be further than it was known to be, nor be called exact, nor be told that less of the target can
    come again: that reaches from its target position as far as the bound goes.

    Args:
        fuller: the file of positions of the run that knew more.
        rows: that of the run that knew less.
        sampled: both runs had a recorder's samples: then no position may stand higher, or be of a better class, either.
            Without samples it rests on offset syncs that nobody checked, and may: its bound must say so.
    """
    known = {_place(row): row for row in fuller}
    return [
        Finding("bolder", text, *_place(row), row["target_position"])
        for row in rows
        for text in _bolder(known.get(_place(row)), row, sampled)
    ]


def higher_positions(fuller: Iterable[Row], rows: Iterable[Row]) -> list[Row]:
    """Return the positions that stand higher on the target than where more was known."""
    known = {_place(row): row["target_position"] for row in fuller}
    return [
        row
        for row in rows
        if None not in (known.get(_place(row)), row["target_position"]) and row["target_position"] > known[_place(row)]
    ]


def bolder_losses(fuller: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Return a finding per partition whose loss claims more than with more known: later start, certain, or ended."""
    now = {(row["topic"], row["partition"]): row for row in rows}
    found = []
    for before in fuller:
        place = (before["topic"], before["partition"])
        row = now.get(place)
        if row is None:
            found.append(Finding("bolder", "loses records, and is told complete by who knew less", None, *place))
            continue
        found += [Finding("bolder", text, None, *place, row["from_offset"]) for text in _bolder_loss(before, row)]
    return found


def bolder_groups(
    fuller: Iterable[Mapping[str, Any]], groups: Iterable[Mapping[str, Any]], higher: Iterable[Row] = ()
) -> list[Finding]:
    """Return a finding for every group of which the plan tells fewer re-reads than where more was known.

    Args:
        higher: positions that stand higher, and may: whoever is further on reads less again, and how far that reaches
            is judged by position.
    """
    known = {group["group"]: group["rereads"] for group in fuller}
    compared = known.keys() - {row["group"] for row in higher}
    return [
        Finding(
            "bolder",
            f"{group['rereads']} records were told before the approval, and {known[group['group']]} where more was"
            " known",
            group["group"],
        )
        for group in groups
        if group["group"] in compared and _limit(group["rereads"]) < _limit(known[group["group"]])
    ]


def _bolder(before: Row | None, row: Row, sampled: bool) -> list[str]:
    if before is None:
        return ["nobody knew of it where more was known"]
    texts = (
        [f"its position {row['position']} is above {before['position']}, which was known"]
        if row["position"] > before["position"]
        else []
    )
    if row["target_position"] is None:
        return texts
    if before["target_position"] is None:
        return [*texts, f"stands at {row['target_position']}, and was {REFUSED} where more was known"]
    texts += (
        [f"is exact, and was not where more was known: {row['evidence']}"]
        if row["exact"] and not before["exact"]
        else []
    )
    # What a group at a lower position reads again says nothing of one that had got further.
    if row["position"] == before["position"] and _reach(row) < _reach(before):
        texts.append(f"reads nothing again from {_reach(row)} on, and from {_reach(before)} on where more was known")
    if sampled and row["target_position"] > before["target_position"]:
        texts.append(f"stands above {before['target_position']}, where it stood when more was known: {row['evidence']}")
    if sampled and CLASSES.index(row["class"]) < CLASSES.index(before["class"]):
        texts.append(f"is {row['class']}, and was {before['class']} where more was known")
    return texts


def _bolder_loss(before: Mapping[str, Any], row: Mapping[str, Any]) -> list[str]:
    texts = []
    if row["from_offset"] > before["from_offset"]:
        texts.append(
            f"loses nothing below {row['from_offset']}, and loses records from {before['from_offset']} on where more"
            " was known"
        )
    certain = row["certain_to"] is not None and row["certain_to"] > row["from_offset"]
    if certain and not (
        before["certain_to"] is not None
        and before["from_offset"] <= row["from_offset"]
        and row["certain_to"] <= before["certain_to"]
    ):
        texts.append(
            f"certainly loses records up to {row['certain_to']}, and up to {before['certain_to']} from"
            f" {before['from_offset']} on where more was known"
        )
    if _limit(row["possible_to"]) < _limit(before["possible_to"]):
        texts.append(
            f"loses nothing from {row['possible_to']} on, and up to {before['possible_to']} where more was known"
        )
    return texts


def _place(row: Row) -> tuple[str, str, int]:
    return row["group"], row["topic"], row["partition"]


def _reach(row: Row) -> int:
    """The target offset from which on nothing is read again, by the row's own claim."""
    return ANYWHERE if row["bound"] is None else row["target_position"] + row["bound"]


def _limit(number: int | None) -> int:
    return ANYWHERE if number is None else number
