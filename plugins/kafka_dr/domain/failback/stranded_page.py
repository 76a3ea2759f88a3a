"""The page that a second person reads before deciding on stranded records."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from kafka_dr.domain.failback.stranded import Decision, Mode, PlannedReturn, StrandedTotals
from kafka_dr.domain.plain_text import count_of, first_few, format_duration, format_moment, table_cell
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
            f"Digest of the search result: `{planned.found}`. Digest of this decision: `{planned.digest}`",
        ]
    )


def _summary(planned: PlannedReturn) -> list[str]:
    records, size = (sum(getattr(totals, name) for totals in planned.stranded) for name in ("records", "bytes"))
    if not records:
        return [f"No record is stranded: all records that {planned.target} acknowledged are on {planned.source}."]
    return [
        (
            f"**Stranded on {planned.target}: {count_of(records, 'record')}**, {size:,} bytes. {planned.target}"
            " acknowledged these records, and they were never replicated. They are exported to files, whatever is"
            f" decided{f': {planned.left_out}' if planned.left_out else ''}."
        )
    ]


def _table(planned: PlannedReturn) -> list[str]:
    if not planned.stranded:
        return []
    ordered = sorted(planned.stranded, key=lambda totals: (-totals.records, totals.topic))
    head = [
        (
            "| topic | records | bytes | written | of aborted transactions | behind an open transaction | missing on"
            " the returned cluster | decision |"
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
                f"Compacted topics ({table_cell(', '.join(compacted[:_SHOWN]))}): a stranded record is not replayed if"
                f" clients wrote its key later on {planned.source}, since the replay would undo the newer value."
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
                f"An earlier run has deleted the logs of {named} on {planned.target}: only the export of that run"
                " holds the stranded records."
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
                f"{planned.target} has lost {count_of(lacking, 'record')} that {planned.source} still has: no mode"
                " copies these records back."
            )
        ]
        if lacking
        else []
    )
    stay = (
        f"Each direction of replication has its own topics: no mode deletes the topics with stranded records on"
        f" {planned.target}, and consumers on {planned.target} read these records. A replayed record is on"
        f" {planned.target} a second time, in the topic that the flow back fills. A discarded or quarantined record"
        " stays in its topic, too."
    )
    return [*([stay] if any(totals.records for totals in planned.stranded) else []), *lost]


def _mode_meaning(planned: PlannedReturn) -> str:
    if planned.mode is Mode.APPEND:
        return (
            f"Mode append: the logs on {planned.target} stay, and the records that clients wrote on {planned.source}"
            f" since the failover are added{_copy_estimate(planned)}. Stranded records stay in the logs, before the"
            f" added records.{_copied_whole(planned)}"
        )
    topics = f"the copies of {planned.source}'s own topics" if planned.apart else "the topics"
    size = f" {planned.deleted:,} bytes are deleted." if planned.deleted is not None else ""
    size += f" All records of these topics on {planned.source} are copied{_copy_estimate(planned)}."
    older = sum(totals.older for totals in planned.stranded)
    older_records = (
        f"{count_of(older, 'older record')} that {planned.source} no longer has are in the export only"
        if older
        else f"{planned.target} has no replicated record that {planned.source} no longer has"
    )
    return (
        f"**Mode recreate: {topics} on {planned.target} are deleted and recreated**, then copied whole.{size}"
        f" {older_records}; consumers that rewind read the copy of {planned.source}'s log."
    )


def _copied_whole(planned: PlannedReturn) -> str:
    """Return a sentence on deleted topics that mode append copies from their beginning; empty without any."""
    named = table_cell(first_few(planned.gone, _SHOWN))
    return f" Topics that an earlier run has deleted are copied whole: {named}." if planned.gone else ""


def _copy_estimate(planned: PlannedReturn) -> str:
    """Return the end of a sentence: records and bytes to copy, and the time at the assumed rate; empty if unknown."""
    if planned.copied is None:
        return ""
    size = "" if planned.copied_bytes is None else f", {planned.copied_bytes:,} bytes"
    time = format_duration(round(planned.copied / _RECORDS_PER_SECOND))
    return f": about {count_of(planned.copied, 'record')}{size}, {time} at {_RECORDS_PER_SECOND:,} records a second"


_DECISION_MEANING = {
    Decision.KEEP: (
        "keep: the records stay in the log on {target}. Groups that had not read past these records read them. Groups"
        " that have read records of {source} since the failover are placed behind these records, and never read them."
    ),
    Decision.REPLAY: (
        "replay: the records are written once to the log ends on {source}, with headers that name each record's origin."
        " Replayed records come after all records that clients have written since the failover: the original order"
        " cannot be restored."
    ),
    Decision.QUARANTINE: (
        "quarantine: the records are written to a separate topic on {source}, TOPIC.stranded; only consumers of that"
        " topic read them."
    ),
    Decision.DISCARD: "discard: the records are not written to {source}; the export holds them.",
}


def stranded_by_topic(topics: Iterable[StrandedTopic], compacted: Collection[str]) -> tuple[StrandedTotals, ...]:
    """Return the totals of each topic, sorted by topic name.

    Topics that have no stranded, no lacking and no older record are left out.

    Args:
        topics: the figures of find_stranded_records.
        compacted: names of the compacted topics.
    """
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
