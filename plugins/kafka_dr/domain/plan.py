"""The plan of a run: what it will do, in full. Approvals name its digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from kafka_dr.domain.canonical import digest_of
from kafka_dr.vocabulary import TranslationClass


@dataclass(frozen=True)
class GroupForecast:
    """What is expected for one group.

    Attributes:
        mirror_maker_rereads: records that MirrorMaker 2's own checkpoints would make it read again.
        expected: translation class -> partitions, if the group stays where it is; all but REFUSED are exact with a readable source.
    """

    group: str
    partitions: int
    lag: int
    policy: str
    active: bool
    mirror_maker_rereads: int | None
    expected: Mapping[str, int] = field(default_factory=dict)


def expected_class(position: int, end: int, synced: bool) -> TranslationClass:
    """How a position will be translated while the source is readable.

    Args:
        end: the source partition's log end.
        synced: an offset sync names this very position.
    """
    if not 0 <= position <= end:
        return TranslationClass.REFUSED
    if position == end:
        return TranslationClass.END
    return TranslationClass.SYNC if synced else TranslationClass.CONTENT


@dataclass(frozen=True)
class Plan:
    """What one run will do.

    Attributes:
        topics: [source name, name on the target, partitions, topic id].
        fence: ACL entries that will be added on the source, as text.
        opening: ACL entries that will be removed on the target, as text.
        unproven: what the run will not be able to prove.
    """

    procedure_id: str
    dag_id: str
    source: str
    target: str
    reason: str
    naming: str
    connectors: Mapping[str, str]
    topics: tuple[tuple[str, str, int, str], ...]
    local_names: Mapping[str, str]
    groups: tuple[GroupForecast, ...]
    fence: tuple[str, ...]
    opening: tuple[str, ...]
    deadlines: Mapping[str, float]
    start_reverse: bool
    lag: int
    drain_seconds: float | None
    unproven: tuple[str, ...] = field(default_factory=tuple)

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain JSON data."""
        return asdict(self)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON."""
        return digest_of(self.as_dict())


def plan_markdown(plan: Mapping[str, Any], digest: str) -> str:
    """The forecast as an approver reads it."""
    groups = sorted(plan["groups"], key=lambda g: -g["lag"])
    rows = [f"| {cell(g['group'])} | {g['partitions']} | {g['lag']} | {_expected(g)} | {_rereads(g)} | {'yes' if g['active'] else 'no'} |" for g in groups[:50]]
    more = [f"\n... and {len(groups) - 50} more groups, all with less lag.\n"] if len(groups) > 50 else []
    unproven = [f"- {cell(note)}" for note in plan["unproven"]]
    return "\n".join(
        [
            f"Move all clients from **{plan['source']}** to **{plan['target']}**. Reason: {cell(plan['reason'])}",
            "",
            f"{len(plan['topics'])} topics, {len(groups)} groups, {plan['lag']} records to replicate"
            + (f", about {plan['drain_seconds']:.0f} s to drain." if plan["drain_seconds"] is not None else "; no rate to tell the time to drain."),
            "",
            _expectation(plan["groups"]),
            "",
            "| group | partitions | lag | expected to be found by | read again by MirrorMaker 2's checkpoints | active now |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            *more,
            "",
            "What cannot be proven:" if unproven else "Nothing is left unproven.",
            *unproven,
            "",
            f"Clients are fenced for at most {plan['deadlines']['max_fence_seconds']:.0f} s; after that the procedure returns to {plan['source']} by itself.",
            "",
            f"Plan digest `{digest}`",
        ]
    )


def _expectation(groups: Sequence[Mapping[str, Any]]) -> str:
    refused = sum(g["expected"].get(TranslationClass.REFUSED, 0) for g in groups)
    if refused:
        return f"{refused} positions lie outside their logs and will have to be decided on by a person; every other one is expected to be exact."
    return "Every position is expected to be exact: no record skipped, none read again but MirrorMaker 2's own repeats."


def _expected(group: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(group["expected"].items())) or "no position"


def _rereads(group: Mapping[str, Any]) -> str:
    return "no checkpoint" if group["mirror_maker_rereads"] is None else str(group["mirror_maker_rereads"])


def cell(text: str) -> str:
    """Text safe inside a Markdown table: no markup, no line breaks, no template braces."""
    table = {"|": "\\|", "<": "&lt;", ">": "&gt;", "\n": " ", "\r": " ", "`": "'", "{": "&#123;", "}": "&#125;", "[": "\\[", "]": "\\]"}
    return "".join(table.get(char, char) for char in text)
