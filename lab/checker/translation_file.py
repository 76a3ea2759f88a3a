"""The evidence's file of positions, and whether the evidence's figures are those of this very file."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from lab.checker.evidence_file import figures_of
from lab.checker.findings import Finding

COLUMNS = (
    "group",
    "topic",
    "partition",
    "position",
    "position_at",
    "target_topic",
    "target_position",
    "class",
    "exact",
    "bound",
    "evidence",
    "clamped",
)
WHOLE_NUMBERS = (
    "partition",
    "position",
    "position_at",
    "target_position",
    "bound",
    "mirror_maker_position",
    "mirror_maker_rereads",
)
REFUSED = "REFUSED"

Row = Mapping[str, Any]


class PositionClaim(NamedTuple):
    """What the product says of one position.

    Args:
        position: the source position that it knew, the last one recorded.
        recorded_at: when that was seen, in milliseconds since 1970; 0 where nobody knows.
        target_position: where the group was put; None where it was put nowhere.
        kind: the translation class.
        bound: at most so many records are read again; None where unknown.
    """

    position: int
    recorded_at: int
    target_topic: str | None
    target_position: int | None
    kind: str
    exact: bool
    bound: int | None


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the file's rows, whole numbers as such: a column that lacks some may hold floating ones."""
    rows = pq.read_table(path).to_pylist()
    return [{name: _whole(value) if name in WHOLE_NUMBERS else value for name, value in row.items()} for row in rows]


def position_claims(rows: Iterable[Row]) -> dict[str, dict[tuple[str, int], PositionClaim]]:
    """Return what is said of each position, by group and source partition."""
    found: dict[str, dict[tuple[str, int], PositionClaim]] = defaultdict(dict)
    for row in rows:
        told = (
            row[name]
            for name in ("position", "position_at", "target_topic", "target_position", "class", "exact", "bound")
        )
        found[row["group"]][row["topic"], row["partition"]] = PositionClaim(*told)
    return dict(found)


def agreement_findings(evidence: Mapping[str, Any], rows: Sequence[Row], path: Path) -> list[Finding]:
    """Return a finding for every figure of the evidence that the file of positions denies."""
    figures = figures_of(evidence, "translate_offsets")
    receipt, bounds = (
        figures.get("translation") or {},
        [row["bound"] for row in rows if row["target_position"] is not None],
    )
    theirs = [row["mirror_maker_rereads"] for row in rows if row.get("mirror_maker_rereads") is not None]
    said = {
        "classes": (evidence["classes"], dict(Counter(row["class"] for row in rows))),
        "rereads.bound": (evidence["rereads"].get("bound"), None if None in bounds else max(bounds, default=None)),
        "rereads.mirror_maker": (evidence["rereads"].get("mirror_maker"), max(theirs, default=None)),
        "translate_offsets.positions": (figures.get("positions"), len(rows)),
        "translate_offsets.exact": (figures.get("exact"), sum(bool(row["exact"]) for row in rows)),
        "translate_offsets.digest": (figures.get("digest"), translation_digest(rows)),
        "translate_offsets.translation.file": (receipt.get("file"), evidence["positions"]),
        "translate_offsets.translation.rows": (receipt.get("rows"), len(rows)),
        "translate_offsets.translation.sha256": (receipt.get("sha256"), sha256(path.read_bytes()).hexdigest()),
    }
    wrong = {name: (told, seen) for name, (told, seen) in said.items() if _without_zeros(told) != _without_zeros(seen)}
    return [
        Finding("evidence", f"{name} says {told!r:.200}, the file of positions {seen!r:.200}")
        for name, (told, seen) in wrong.items()
    ] + _inner_findings(rows)


def translation_digest(rows: Iterable[Row]) -> str:
    """Return the digest of a translation as its contract defines it, made from the rows alone."""
    partitions: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        partitions[row["topic"], row["partition"]].append(row)
    told = []
    for (topic, partition), mine in sorted(partitions.items()):
        ordered = sorted(mine, key=lambda row: row["group"])
        told.append([topic, partition, _sha256([[row[name] for name in COLUMNS] for row in ordered])])
    return _sha256(told)


def _inner_findings(rows: Iterable[Row]) -> list[Finding]:
    """An exact position reads nothing again, and a refused one is none; a place has one row."""
    findings, seen = [], set()
    for row in rows:
        place = (row["group"], row["topic"], row["partition"])
        wrong = ["stands twice in the file of positions"] if place in seen else []
        wrong += [f"is called exact with a bound of {row['bound']}"] if row["exact"] and row["bound"] != 0 else []
        wrong += (
            ["is refused and has a position all the same"]
            if row["class"] == REFUSED and row["target_position"] is not None
            else []
        )
        wrong += (
            ["has no position and was not refused"]
            if row["class"] != REFUSED and row["target_position"] is None
            else []
        )
        findings += [Finding("evidence", text, *place) for text in wrong]
        seen.add(place)
    return findings


def _without_zeros(figure: Any) -> Any:
    return {name: count for name, count in figure.items() if count} if isinstance(figure, Mapping) else figure


def _whole(value: float | None) -> int | None:
    return None if value is None or math.isnan(value) else int(value)


def _sha256(value: Any) -> str:
    return sha256(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()
