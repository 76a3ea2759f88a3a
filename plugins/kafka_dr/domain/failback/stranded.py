"""Decisions on stranded records, one per topic: what each mode allows, and what a second person is asked.

Invariants
1. A topic with stranded records has exactly one decision; where two patterns disagree about it, nobody guesses.
2. Nothing that the mode makes impossible is promised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.mirror_maker.patterns import ALL, pattern_list
from kafka_dr.domain.plain_text import counted, duration, first_few, moment
from kafka_dr.domain.readiness.plan import cell
from kafka_dr.procedure.entries import StrandedTopic

_SHOWN = 50
#: A rate that a time is told for: records a second. What MirrorMaker 2 does depends on their size, on its tasks and on
#: the way between the clusters.
_RATE = 10_000


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
class Stranded:
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
class Return:
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
    stranded: tuple[Stranded, ...]
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


def decide(topics: Iterable[str], rules: Mapping[str, str]) -> tuple[dict[str, Decision], list[str]]:
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


def impossible(
    mode: Mode,
    stranded: Iterable[Stranded],
    decisions: Mapping[str, Decision],
    target: str,
    apart: bool = False,
    gone: Collection[str] = (),
) -> list[str]:
    """What the mode makes impossible of the decisions, each with what to ask for instead.

    Args:
        apart: as of `Return`.
        gone: as of `Return`.
    """
    stranded = list(stranded)
    # Where the log was deleted the mode makes no difference any more.
    modes = {one.topic: Mode.RECREATE if one.topic in gone else mode for one in stranded}
    there = [one for one in stranded if one.records]
    wrong = [
        f"{one.topic}: {decisions[one.topic]} of {counted(one.records, 'record')};"
        f" {_why_not(modes[one.topic], one.topic in gone).format(target=target)}"
        for one in there
        if _cannot(modes[one.topic], decisions[one.topic], apart)
    ]
    lacking = [
        f"{one.topic}: {target} lost {counted(one.lacking, 'record')} that were replicated from it; only mode recreate"
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


def return_markdown(planned: Return) -> str:
    """The decision as an approver reads it: what was found, what becomes of it, and what cannot be had."""
    return "\n".join(
        [
            f"Clients go back from **{planned.source}** to **{planned.target}**. Reason: {cell(planned.reason)}",
            "",
            *_found(planned),
            "",
            *_table(planned),
            "",
            *[f"- {line}" for line in _said(planned)],
            "",
            f"Found: digest `{planned.found}`. Digest of this decision: `{planned.digest}`",
        ]
    )


def _found(planned: Return) -> list[str]:
    records, size = (sum(getattr(one, name) for one in planned.stranded) for name in ("records", "bytes"))
    if not records:
        return [f"Nothing is stranded on {planned.target}: all that it acknowledged is on {planned.source}."]
    return [
        (
            f"**{counted(records, 'record')} are stranded on {planned.target}**, {size:,} bytes: acknowledged"
            " there, and"
            " never replicated. They are exported to files, whatever is decided."
        )
    ]


def _table(planned: Return) -> list[str]:
    if not planned.stranded:
        return []
    ordered = sorted(planned.stranded, key=lambda one: (-one.records, one.topic))
    head = [
        (
            "| topic | records | bytes | written | of aborted transactions | undecided | missing on the returned"
            " cluster | decision |"
        ),
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    more = (
        [f"\n... and {len(ordered) - _SHOWN} more topics, each with no more records.\n"]
        if len(ordered) > _SHOWN
        else []
    )
    return [*head, *(_row(one, planned.decisions[one.topic]) for one in ordered[:_SHOWN]), *more]


def _row(one: Stranded, decision: Decision) -> str:
    cells = [
        cell(one.topic),
        one.records,
        one.bytes,
        _written(one),
        one.aborted,
        one.undecided,
        one.lacking,
        decision if one.records else "-",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def _written(one: Stranded) -> str:
    return (
        "unknown"
        if one.first_at is None or one.last_at is None
        else f"{_moment(one.first_at)} to {_moment(one.last_at)}"
    )


def _moment(at: int) -> str:
    return moment(datetime.fromtimestamp(at / 1000, UTC).isoformat())


def _said(planned: Return) -> list[str]:
    """What the mode and the decisions mean, and what they do not give."""
    told = {planned.decisions[one.topic] for one in planned.stranded if one.records}
    compacted = [
        one.topic for one in planned.stranded if one.compacted and planned.decisions[one.topic] is Decision.REPLAY
    ]
    meanings = [
        meaning.format(source=planned.source, target=planned.target)
        for decision, meaning in _MEANS.items()
        if decision in told
    ]
    dropped = (
        [
            (
                f"Of compacted topics ({cell(', '.join(compacted[:_SHOWN]))}) a stranded value is dropped where its"
                " key was"
                f" written later on {planned.source}: it would undo that."
            )
        ]
        if compacted
        else []
    )
    return [_mode(planned), *_gone(planned), *_apart(planned), *meanings, *dropped]


def _gone(planned: Return) -> list[str]:
    """What an earlier run has made of it."""
    topics = [one.topic for one in planned.stranded if one.records and one.topic in planned.gone]
    named = cell(first_few(topics, _SHOWN))
    return (
        [
            (
                f"An earlier run has deleted the logs of {named} on {planned.target}: their stranded records are in its"
                " export only."
            )
        ]
        if topics
        else []
    )


def _apart(planned: Return) -> list[str]:
    """What names that part both directions make of it."""
    if not planned.apart:
        return []
    lacking = sum(one.lacking for one in planned.stranded)
    lost = (
        [
            (
                f"{counted(lacking, 'record')} that {planned.target} lost stay on {planned.source} only: no mode brings"
                " them back."
            )
        ]
        if lacking
        else []
    )
    stay = (
        f"Each direction has topics of its own: those with stranded records are deleted on {planned.target} in no mode,"
        " and stay what consumers read there. A record that is replayed is then there a second time, under the name"
        " that the flow back gives it; one that is discarded or quarantined stays all the same."
    )
    return [*([stay] if any(one.records for one in planned.stranded) else []), *lost]


def _mode(planned: Return) -> str:
    if planned.mode is Mode.APPEND:
        return (
            f"Mode append: the logs on {planned.target} stay, and only what clients wrote on {planned.source} since"
            f" they went there is added{_copying(planned)}. Stranded records keep their place before"
            f" that.{_whole(planned)}"
        )
    topics = f"the copies of {planned.source}'s own topics" if planned.apart else "the topics"
    size = f" {planned.deleted:,} bytes are deleted." if planned.deleted is not None else ""
    size += f" As much as {planned.source} holds is copied{_copying(planned)}."
    older = sum(one.older for one in planned.stranded)
    kept = (
        f"{counted(older, 'older record')} that {planned.source} has not any more are in the export only"
        if older
        else f"Nothing is there that {planned.source} has not any more"
    )
    return (
        f"**Mode recreate: {topics} on {planned.target} are deleted and made anew**, then mirrored whole.{size} {kept};"
        f" consumers that rewind see {planned.source}'s log."
    )


def _whole(planned: Return) -> str:
    """What mode append makes of topics that an earlier run has deleted."""
    named = cell(first_few(planned.gone, _SHOWN))
    return f" What an earlier run has deleted is copied whole: {named}." if planned.gone else ""


def _copying(planned: Return) -> str:
    """How much there is to copy, and how long that takes at a given rate."""
    if planned.copied is None:
        return ""
    size = "" if planned.copied_bytes is None else f", {planned.copied_bytes:,} bytes"
    return (
        f": about {counted(planned.copied, 'record')}{size}, {duration(round(planned.copied / _RATE))} at {_RATE:,}"
        " records a second"
    )


_MEANS = {
    Decision.KEEP: (
        "keep: the records stay in the log on {target}. Groups that had not passed the place where they stand read"
        " them; groups that went on with {source} are placed behind them, and never read them."
    ),
    Decision.REPLAY: (
        "replay: the records are written to {source} once, at the end of its log, with headers that say where each came"
        " from. They come after what was written since, whatever was before them once: their order among others cannot"
        " be restored."
    ),
    Decision.QUARANTINE: (
        "quarantine: the records are written to a topic of their own on {source}; no consumer sees them unless it is"
        " told to."
    ),
    Decision.DISCARD: "discard: the records are in the export and nowhere else.",
}


def stranded_by_topic(found: Iterable[StrandedTopic], compacted: Collection[str]) -> tuple[Stranded, ...]:
    """What find_stranded_records says of each topic, by name; topics without any are left out."""
    return tuple(
        Stranded(
            one.topic,
            records=one.records,
            bytes=one.bytes,
            first_at=one.first_at,
            last_at=one.last_at,
            aborted=one.aborted,
            undecided=one.undecided,
            lacking=one.lacking,
            older=one.older,
            compacted=one.topic in compacted,
        )
        for one in sorted(found, key=lambda one: one.topic)
        if one.records or one.lacking or one.older
    )
