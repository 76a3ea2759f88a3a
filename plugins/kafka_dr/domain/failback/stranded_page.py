"""The page that a second person reads before deciding on stranded records."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from kafka_dr.domain.failback.stranded import Decision, Mode, PlannedReturn, StrandedTotals
from kafka_dr.domain.plain_text import count_of, first_few, format_duration, format_moment
from kafka_dr.domain.readiness.plan import table_cell
from kafka_dr.procedure.entries import StrandedTopic

_SHOWN = 50
#: The rate assumed for the time estimate, in records a second. MirrorMaker 2's real rate depends on record size, on the
#: number of tasks and on the network between the clusters.
_RECORDS_PER_SECOND = 10_000


def return_markdown(planned: PlannedReturn) -> str:
    """Return the gate's page as Markdown: stranded records and decision by topic, the consequences, the digest."""
    return "\n".join(
        [
            f"Clients go back from **{planned.source}** to **{planned.target}**. Reason: {table_cell(planned.reason)}",
            "",
            *_summary(planned),
            "",
            *_table(planned),
            "",
            *[f"- {line}" for line in _consequences(planned)],
            "",
            f"Found: digest `{planned.found}`. Digest of this decision: `{planned.digest}`",
        ]
    )


def _summary(planned: PlannedReturn) -> list[str]:
    records, size = (sum(getattr(totals, name) for totals in planned.stranded) for name in ("records", "bytes"))
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
    ordered = sorted(planned.stranded, key=lambda totals: (-totals.records, totals.topic))
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
    return [*head, *(_row(totals, planned.decisions[totals.topic]) for totals in ordered[:_SHOWN]), *more]


def _row(totals: StrandedTotals, decision: Decision) -> str:
    cells = [
        table_cell(totals.topic),
        totals.records,
        totals.bytes,
        _written_between(totals),
        totals.aborted,
        totals.undecided,
        totals.lacking,
        decision if totals.records else "-",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def _written_between(totals: StrandedTotals) -> str:
    return (
        "unknown"
        if totals.first_at is None or totals.last_at is None
        else f"{_moment(totals.first_at)} to {_moment(totals.last_at)}"
    )


def _moment(at: int) -> str:
    return format_moment(datetime.fromtimestamp(at / 1000, UTC).isoformat())


def _consequences(planned: PlannedReturn) -> list[str]:
    """Return sentences on what the mode and the decisions will do, and what they cannot do."""
    decisions = {planned.decisions[totals.topic] for totals in planned.stranded if totals.records}
    compacted = [
        totals.topic
        for totals in planned.stranded
        if totals.compacted and planned.decisions[totals.topic] is Decision.REPLAY
    ]
    meanings = [
        meaning.format(source=planned.source, target=planned.target)
        for decision, meaning in _DECISION_MEANING.items()
        if decision in decisions
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
    return [_mode_meaning(planned), *_deleted_earlier(planned), *_separate_directions(planned), *meanings, *dropped]


def _deleted_earlier(planned: PlannedReturn) -> list[str]:
    """Return a sentence on topics with stranded records in logs that an earlier run deleted; empty without any."""
    topics = [totals.topic for totals in planned.stranded if totals.records and totals.topic in planned.gone]
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


def _separate_directions(planned: PlannedReturn) -> list[str]:
    """Return sentences on stranded and lacking records if each direction has topics of its own; else empty."""
    if not planned.apart:
        return []
    lacking = sum(totals.lacking for totals in planned.stranded)
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
    return [*([stay] if any(totals.records for totals in planned.stranded) else []), *lost]


def _mode_meaning(planned: PlannedReturn) -> str:
    if planned.mode is Mode.APPEND:
        return (
            f"Mode append: the logs on {planned.target} stay, and only what clients wrote on {planned.source} since"
            f" they went there is added{_copy_estimate(planned)}. Stranded records keep their place before"
            f" that.{_copied_whole(planned)}"
        )
    topics = f"the copies of {planned.source}'s own topics" if planned.apart else "the topics"
    size = f" {planned.deleted:,} bytes are deleted." if planned.deleted is not None else ""
    size += f" As much as {planned.source} holds is copied{_copy_estimate(planned)}."
    older = sum(totals.older for totals in planned.stranded)
    older_records = (
        f"{count_of(older, 'older record')} that {planned.source} has not any more are in the export only"
        if older
        else f"Nothing is there that {planned.source} has not any more"
    )
    return (
        f"**Mode recreate: {topics} on {planned.target} are deleted and made anew**, then mirrored whole.{size}"
        f" {older_records}; consumers that rewind see {planned.source}'s log."
    )


def _copied_whole(planned: PlannedReturn) -> str:
    """Return a sentence on deleted topics that mode append copies from their beginning; empty without any."""
    named = table_cell(first_few(planned.gone, _SHOWN))
    return f" What an earlier run has deleted is copied whole: {named}." if planned.gone else ""


def _copy_estimate(planned: PlannedReturn) -> str:
    """The number of records to copy, and the time to copy them at the assumed rate."""
    if planned.copied is None:
        return ""
    size = "" if planned.copied_bytes is None else f", {planned.copied_bytes:,} bytes"
    time = format_duration(round(planned.copied / _RECORDS_PER_SECOND))
    return f": about {count_of(planned.copied, 'record')}{size}, {time} at {_RECORDS_PER_SECOND:,} records a second"


_DECISION_MEANING = {
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


def stranded_by_topic(topics: Iterable[StrandedTopic], compacted: Collection[str]) -> tuple[StrandedTotals, ...]:
    """Return totals by topic from the outcome of find_stranded_records, by name; topics of only zeros are left out."""
    return tuple(
        StrandedTotals(
            totals.topic,
            records=totals.records,
            bytes=totals.bytes,
            first_at=totals.first_at,
            last_at=totals.last_at,
            aborted=totals.aborted,
            undecided=totals.undecided,
            lacking=totals.lacking,
            older=totals.older,
            compacted=totals.topic in compacted,
        )
        for totals in sorted(topics, key=lambda totals: totals.topic)
        if totals.records or totals.lacking or totals.older
    )
