"""What a second person reads before deciding on stranded records."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from kafka_dr.domain.failback.stranded import Decision, Mode, PlannedReturn, StrandedTotals
from kafka_dr.domain.plain_text import count_of, first_few, format_duration, format_moment
from kafka_dr.domain.readiness.plan import table_cell
from kafka_dr.procedure.entries import StrandedTopic

_SHOWN = 50
#: A rate that a time is told for: records a second. What MirrorMaker 2 does depends on their size, on its tasks and on
#: the way between the clusters.
_RATE = 10_000


def return_markdown(planned: PlannedReturn) -> str:
    """The decision as an approver reads it: what was found, what becomes of it, and what cannot be had."""
    return "\n".join(
        [
            f"Clients go back from **{planned.source}** to **{planned.target}**. Reason: {table_cell(planned.reason)}",
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


def _found(planned: PlannedReturn) -> list[str]:
    records, size = (sum(getattr(one, name) for one in planned.stranded) for name in ("records", "bytes"))
    if not records:
        return [f"Nothing is stranded on {planned.target}: all that it acknowledged is on {planned.source}."]
    return [
        (
            f"**{count_of(records, 'record')} are stranded on {planned.target}**, {size:,} bytes: acknowledged"
            " there, and"
            " never replicated. They are exported to files, whatever is decided."
        )
    ]


def _table(planned: PlannedReturn) -> list[str]:
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


def _row(one: StrandedTotals, decision: Decision) -> str:
    cells = [
        table_cell(one.topic),
        one.records,
        one.bytes,
        _written(one),
        one.aborted,
        one.undecided,
        one.lacking,
        decision if one.records else "-",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def _written(one: StrandedTotals) -> str:
    return (
        "unknown"
        if one.first_at is None or one.last_at is None
        else f"{_moment(one.first_at)} to {_moment(one.last_at)}"
    )


def _moment(at: int) -> str:
    return format_moment(datetime.fromtimestamp(at / 1000, UTC).isoformat())


def _said(planned: PlannedReturn) -> list[str]:
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
                f"Of compacted topics ({table_cell(', '.join(compacted[:_SHOWN]))}) a stranded value is dropped where"
                f" its key was written later on {planned.source}: it would undo that."
            )
        ]
        if compacted
        else []
    )
    return [_mode(planned), *_gone(planned), *_apart(planned), *meanings, *dropped]


def _gone(planned: PlannedReturn) -> list[str]:
    """What an earlier run has made of it."""
    topics = [one.topic for one in planned.stranded if one.records and one.topic in planned.gone]
    named = table_cell(first_few(topics, _SHOWN))
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


def _apart(planned: PlannedReturn) -> list[str]:
    """What names that part both directions make of it."""
    if not planned.apart:
        return []
    lacking = sum(one.lacking for one in planned.stranded)
    lost = (
        [
            (
                f"{count_of(lacking, 'record')} that {planned.target} lost stay on {planned.source} only: no mode"
                " brings them back."
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


def _mode(planned: PlannedReturn) -> str:
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
        f"{count_of(older, 'older record')} that {planned.source} has not any more are in the export only"
        if older
        else f"Nothing is there that {planned.source} has not any more"
    )
    return (
        f"**Mode recreate: {topics} on {planned.target} are deleted and made anew**, then mirrored whole.{size} {kept};"
        f" consumers that rewind see {planned.source}'s log."
    )


def _whole(planned: PlannedReturn) -> str:
    """What mode append makes of topics that an earlier run has deleted."""
    named = table_cell(first_few(planned.gone, _SHOWN))
    return f" What an earlier run has deleted is copied whole: {named}." if planned.gone else ""


def _copying(planned: PlannedReturn) -> str:
    """How much there is to copy, and how long that takes at a given rate."""
    if planned.copied is None:
        return ""
    size = "" if planned.copied_bytes is None else f", {planned.copied_bytes:,} bytes"
    time = format_duration(round(planned.copied / _RATE))
    return f": about {count_of(planned.copied, 'record')}{size}, {time} at {_RATE:,} records a second"


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


def stranded_by_topic(found: Iterable[StrandedTopic], compacted: Collection[str]) -> tuple[StrandedTotals, ...]:
    """What find_stranded_records says of each topic, by name; topics without any are left out."""
    return tuple(
        StrandedTotals(
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
