"""Read the evidence's file of positions, and check that the evidence's figures agree with this file."""

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
    """One row of the file of positions: what the product claims about a group's position on one partition.

    Args:
        position: the group's source position, as last recorded by the product.
        recorded_at: when the position was recorded, in milliseconds since 1970; 0 if unknown.
        target_topic: the topic's name on the target; None if the product names none.
        target_position: the committed target position; None if refused.
        kind: the translation class.
        exact: the product states that the group neither skips nor re-reads a record.
        bound: the maximum number of re-reads; None if the product states no maximum.
    """

    position: int
    recorded_at: int
    target_topic: str | None
    target_position: int | None
    kind: str
    exact: bool
    bound: int | None


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of positions; whole numbers are `int`, although the file may hold them as floats."""
    rows = pq.read_table(path).to_pylist()
    return [{name: _to_int(value) if name in WHOLE_NUMBERS else value for name, value in row.items()} for row in rows]


def position_claims(rows: Iterable[Row]) -> dict[str, dict[tuple[str, int], PositionClaim]]:
    """Return the rows as claims, by group and by (topic, partition) on the source."""
    claims: dict[str, dict[tuple[str, int], PositionClaim]] = defaultdict(dict)
    for row in rows:
        values = (
            row[name]
            for name in ("position", "position_at", "target_topic", "target_position", "class", "exact", "bound")
        )
        claims[row["group"]][row["topic"], row["partition"]] = PositionClaim(*values)
    return dict(claims)


def agreement_findings(evidence: Mapping[str, Any], rows: Sequence[Row], path: Path) -> list[Finding]:
    """Return findings if figures of the evidence contradict the file of positions, or rows contradict themselves.

    Args:
        evidence: the evidence document.
        rows: the file's rows.
        path: the file, whose SHA-256 the evidence states.
    """
    figures = figures_of(evidence, "translate_offsets")
    receipt, bounds = (
        figures.get("translation") or {},
        [row["bound"] for row in rows if row["target_position"] is not None],
    )
    mirror_maker_rereads = [row["mirror_maker_rereads"] for row in rows if row.get("mirror_maker_rereads") is not None]
    figure_pairs = {
        "classes": (evidence["classes"], dict(Counter(row["class"] for row in rows))),
        "rereads.bound": (evidence["rereads"].get("bound"), None if None in bounds else max(bounds, default=None)),
        "rereads.mirror_maker": (evidence["rereads"].get("mirror_maker"), max(mirror_maker_rereads, default=None)),
        "translate_offsets.positions": (figures.get("positions"), len(rows)),
        "translate_offsets.exact": (figures.get("exact"), sum(bool(row["exact"]) for row in rows)),
        "translate_offsets.digest": (figures.get("digest"), translation_digest(rows)),
        "translate_offsets.translation.file": (receipt.get("file"), str(evidence["positions"]).rpartition("/")[2]),
        "translate_offsets.translation.rows": (receipt.get("rows"), len(rows)),
        "translate_offsets.translation.sha256": (receipt.get("sha256"), sha256(path.read_bytes()).hexdigest()),
    }
    wrong = {
        name: (claimed, actual)
        for name, (claimed, actual) in figure_pairs.items()
        if _without_zeros(claimed) != _without_zeros(actual)
    }
    return [
        Finding("evidence", f"{name} in the evidence is {claimed!r:.200}, by the file of positions {actual!r:.200}")
        for name, (claimed, actual) in wrong.items()
    ] + _row_findings(rows)


def translation_digest(rows: Iterable[Row]) -> str:
    """Return a translation's digest, a SHA-256 over its rows, by the same definition as in the Spark job."""
    partitions: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        partitions[row["topic"], row["partition"]].append(row)
    digests = []
    for (topic, partition), partition_rows in sorted(partitions.items()):
        ordered = sorted(partition_rows, key=lambda row: row["group"])
        digests.append([topic, partition, _sha256([[row[name] for name in COLUMNS] for row in ordered])])
    return _sha256(digests)


def _row_findings(rows: Iterable[Row]) -> list[Finding]:
    """Return findings on rows that contradict themselves, and on groups with two rows for one partition."""
    findings, known_places = [], set()
    for row in rows:
        place = (row["group"], row["topic"], row["partition"])
        violations = ["occurs twice in the file of positions"] if place in known_places else []
        violations += [f"is marked exact with a bound of {row['bound']}"] if row["exact"] and row["bound"] != 0 else []
        violations += (
            ["is refused, but has a target position"]
            if row["class"] == REFUSED and row["target_position"] is not None
            else []
        )
        violations += (
            ["has no target position, but is not refused"]
            if row["class"] != REFUSED and row["target_position"] is None
            else []
        )
        findings += [Finding("evidence", text, *place) for text in violations]
        known_places.add(place)
    return findings


def _without_zeros(figure: Any) -> Any:
    return {name: count for name, count in figure.items() if count} if isinstance(figure, Mapping) else figure


def _to_int(value: float | None) -> int | None:
    return None if value is None or math.isnan(value) else int(value)


def _sha256(value: Any) -> str:
    return sha256(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()
