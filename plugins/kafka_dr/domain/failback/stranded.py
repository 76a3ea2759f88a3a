"""Decisions on stranded records, one per topic: what each mode allows, and what a second person is asked.

Invariants
1. A topic with stranded records has exactly one decision; where two patterns disagree about it, nobody guesses.
2. Nothing that the mode makes impossible is promised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.mirror_maker.patterns import ALL, pattern_list
from kafka_dr.domain.plain_text import count_of


class Mode(StrEnum):
    """How the returned cluster gets what it lacks."""

    APPEND = "append"
    RECREATE = "recreate"


class Decision(StrEnum):
    """What becomes of a topic's stranded records. Each is exported before, whatever is decided."""

    KEEP = "keep"
    REPLAY = "replay"
    QUARANTINE = "quarantine"
    DISCARD = "discard"


@dataclass(frozen=True)
class StrandedTotals:
    """The stranded records of one topic.

    Attributes:
        records: how many the returned cluster holds that were never replicated.
        bytes: of their keys and values.
        first_at: the smallest of their timestamps, in milliseconds since 1970; None where none has one.
        last_at: the largest.
        aborted: how many of them are of aborted transactions.
        undecided: how many lie behind a transaction that is still open.
        lacking: how many records the new primary got by replication that the returned cluster does not hold any more.
        older: how many replicated records only the returned cluster still holds, since the new primary's retention took
            them; looked for where its log will be deleted.
        compacted: whether the topic is compacted: then a replay drops values whose key was written later.
    """

    topic: str
    records: int
    bytes: int = 0
    first_at: int | None = None
    last_at: int | None = None
    aborted: int = 0
    undecided: int = 0
    lacking: int = 0
    older: int = 0
    compacted: bool = False


@dataclass(frozen=True)
class PlannedReturn:
    """What a failback will do with the logs of the returned cluster, as a second person approves it.

    Attributes:
        found: digest of what find_stranded_records found.
        stranded: of each topic that has stranded records, or lacks some.
        decisions: topic -> decision.
        deleted: bytes that the returned cluster holds of the topics that are made anew; None in mode append, or where
            nobody knows.
        copied: records that the flow back has to copy, about; None where nobody knows.
        copied_bytes: their bytes, in mode recreate; None where nobody knows.
        apart: each direction has topics of its own, so that the topics with stranded records are deleted in no mode.
        gone: topics whose old log an earlier run has deleted: their stranded records are in its export only.
    """

    source: str
    target: str
    reason: str
    mode: Mode
    found: str
    stranded: tuple[StrandedTotals, ...]
    decisions: Mapping[str, Decision]
    deleted: int | None = None
    copied: int | None = None
    copied_bytes: int | None = None
    apart: bool = False
    gone: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of its canonical JSON."""
        return digest_of(asdict(self))

    @property
    def needs_a_person(self) -> bool:
        """Whether anything is lost, written or deleted by it: without that it needs no decision."""
        return bool(self.stranded) or self.mode is Mode.RECREATE


def decide_topics(topics: Iterable[str], rules: Mapping[str, str]) -> tuple[dict[str, Decision], list[str]]:
    """The decision for each topic, and what is wrong with the rules.

    Args:
        topics: names of topics with stranded records.
        rules: regular expression, as MirrorMaker 2 uses them, to decision. A topic's own name goes before expressions,
            `.*` counts last; without any rule for a topic its records are kept in place.
    """
    expressions = {pattern: pattern_list(pattern, "topic") for pattern in rules if pattern != ALL}
    decided, problems = {}, []
    for topic in sorted(topics):
        told = (
            {Decision(rules[topic])}
            if topic in rules
            else {Decision(rules[name]) for name, one in expressions.items() if one.matches(topic)}
        )
        if len(told) > 1:
            problems.append(
                f"{topic}: {' and '.join(sorted(told))} by different patterns; give its decision under its own name"
            )
        decided[topic] = min(told) if told else Decision(rules.get(ALL, Decision.KEEP))
    return decided, problems


def impossible_decisions(
    mode: Mode,
    stranded: Iterable[StrandedTotals],
    decisions: Mapping[str, Decision],
    target: str,
    apart: bool = False,
    gone: Collection[str] = (),
) -> list[str]:
    """What the mode makes impossible of the decisions, each with what to ask for instead.

    Args:
        apart: as of `PlannedReturn`.
        gone: as of `PlannedReturn`.
    """
    stranded = list(stranded)
    # Where the log was deleted the mode makes no difference any more.
    modes = {one.topic: Mode.RECREATE if one.topic in gone else mode for one in stranded}
    there = [one for one in stranded if one.records]
    wrong = [
        f"{one.topic}: {decisions[one.topic]} of {count_of(one.records, 'record')};"
        f" {_why_not(modes[one.topic], one.topic in gone).format(target=target)}"
        for one in there
        if _cannot(modes[one.topic], decisions[one.topic], apart)
    ]
    lacking = [
        f"{one.topic}: {target} lost {count_of(one.lacking, 'record')} that were replicated from it; only mode recreate"
        " brings them back"
        for one in stranded
        if one.lacking and modes[one.topic] is Mode.APPEND and not apart
    ]
    return wrong + lacking


_WHY_NOT = {
    Mode.APPEND: (
        "in mode append they stay where they are in the old log of {target}: keep them, or make the topics anew with"
        " mode recreate"
    ),
    Mode.RECREATE: (
        "in mode recreate the log on {target} is deleted and nothing stays in it: replay, quarantine or discard them"
    ),
}


_GONE = (
    "an earlier run has deleted the log on {target}, and its export alone holds them: replay, quarantine or discard"
    " them"
)


def _why_not(mode: Mode, gone: bool) -> str:
    return _GONE if gone else _WHY_NOT[mode]


def _cannot(mode: Mode, decision: Decision, apart: bool) -> bool:
    if mode is Mode.APPEND:
        return decision is not Decision.KEEP
    return decision is Decision.KEEP and not apart
