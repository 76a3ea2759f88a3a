"""Draws the decision trees as an SVG picture, and writes the part of their page that explains each end.

The questions of a tree stand below each other in the order in which they are asked. A branch that ends, or leaves this
order, is indented.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from kafka_dr.domain.diagnosis.diagnosis import TREES, list_ends
from kafka_dr.domain.diagnosis.tree import DiagnosisEnd, DiagnosisQuestion, NothingFound, Weight

_ROW, _INDENT, _COLUMN, _MARGIN, _COLUMNS = 24, 26, 700, 24, 2
_STYLE = (
    ".t{fill:#1f2328;font-size:13px}.s{fill:#59636e;font-size:12px}.h{fill:#1f2328;font-size:15px;font-weight:600}"
    ".fault{fill:#ffebe9;stroke:#ff8182}.passing{fill:#ddf4ff;stroke:#54aeff}.choice{fill:#dafbe1;stroke:#4ac26b}"
    "line{stroke:#8c959f;stroke-width:1}"
)
_ROOT = (
    'font-family="system-ui, sans-serif" role="img"'
    ' aria-label="The decision trees of diagnose_replication: questions, branches and ends."'
)
_WEIGHTS = {Weight.FAULT: "a fault", Weight.PASSING: "passes by itself", Weight.CHOICE: "set on purpose"}


@dataclass(frozen=True)
class _DrawnRow:
    """One row of the picture: `branch` is the answer that leads to the node; "" for the first of a tree."""

    depth: int
    branch: str
    node: DiagnosisQuestion[Any] | DiagnosisEnd | NothingFound


def _rows_below(node: DiagnosisQuestion[Any], depth: int, branch: str = "") -> Iterator[_DrawnRow]:
    """Yield a question's row, those of its branches, and last those of the branch that goes on in the tree's order."""
    yield _DrawnRow(depth, branch, node)
    *others, (last_answer, last) = node.branches.items()
    for answer, below in others:
        if isinstance(below, DiagnosisQuestion):
            yield from _rows_below(below, depth + 1, str(answer))
        else:
            yield _DrawnRow(depth + 1, str(answer), below)
    if isinstance(last, DiagnosisQuestion):
        yield from _rows_below(last, depth, str(last_answer))
    else:
        yield _DrawnRow(depth + 1, str(last_answer), last)


def draw_trees() -> str:
    """Return the picture of all trees as SVG."""
    blocks = [(tree.id.replace("_", " "), list(_rows_below(tree.root, 0))) for tree in TREES]
    columns: list[list[tuple[str, list[_DrawnRow]]]] = [[] for _ in range(_COLUMNS)]
    for block in blocks:
        min(columns, key=_height_of).append(block)
    height = max(map(_height_of, columns)) + 3 * _MARGIN + _ROW
    width = _COLUMNS * _COLUMN + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {_ROOT}>',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_legend(),
    ]
    for number, column in enumerate(columns):
        y = 2 * (_MARGIN + _ROW)
        for title, rows in column:
            parts += _drawn_block(title, rows, _MARGIN + number * _COLUMN, y)
            y += _ROW * (len(rows) + 2)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _height_of(column: list[tuple[str, list[_DrawnRow]]]) -> int:
    return sum(_ROW * (len(rows) + 2) for _, rows in column)


def _legend() -> Iterator[str]:
    for number, (weight, text) in enumerate(_WEIGHTS.items()):
        yield from _drawn_box(weight, text, _MARGIN + number * 150, 2 * _MARGIN)


def _drawn_block(title: str, rows: list[_DrawnRow], x: int, y: int) -> Iterator[str]:
    yield f'<text class="h" x="{x}" y="{y}">{escape(title)}</text>'
    for number, row in enumerate(rows, 1):
        yield from _drawn_row(row, x + row.depth * _INDENT, y + number * _ROW)


def _drawn_row(row: _DrawnRow, x: int, y: int) -> Iterator[str]:
    if row.branch:
        yield f'<line x1="{x - 14}" y1="{y - 20}" x2="{x - 14}" y2="{y - 4}"/>'
        yield f'<line x1="{x - 14}" y1="{y - 4}" x2="{x - 4}" y2="{y - 4}"/>'
        yield f'<text class="s" x="{x}" y="{y}">{escape(row.branch)}:</text>'
    start = x + (len(row.branch) + 2) * 6.2 * bool(row.branch)
    if isinstance(row.node, DiagnosisEnd):
        yield from _drawn_box(row.node.weight, row.node.id, start, y)
    elif isinstance(row.node, NothingFound):
        yield f'<text class="s" x="{start:g}" y="{y}" font-style="italic">{escape(row.node.why)}</text>'
    else:
        yield f'<text class="t" x="{start:g}" y="{y}">{escape(row.node.text)}</text>'


def _drawn_box(weight: Weight, text: str, x: float, y: int) -> Iterator[str]:
    width = len(text) * 7.2 + 12
    yield f'<rect class="{weight.value}" x="{x:g}" y="{y - 14}" width="{width:g}" height="19" rx="5"/>'
    yield f'<text class="t" x="{x + 6:g}" y="{y}">{escape(text)}</text>'


def explain_ends() -> str:
    """Return the sections of the page diagnose_replication about the ends, in the order of the trees."""
    return "\n".join(
        f"## {end.id}\n\n**Means.** {end.means}\n\n**Weight.** {_WEIGHTS[end.weight].capitalize()}.\n\n"
        f"**Do.** {end.do}\n"
        for end in list_ends()
    )
