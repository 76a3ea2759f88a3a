"""The plan of an unplanned failover, as its approver reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kafka_dr.domain.fencing.armed_fence import ARMED, BY_HOOK
from kafka_dr.domain.loss.loss_plan import ROWS_SHOWN, SourceLastSeen, offset_text
from kafka_dr.domain.plain_text import count_of, first_few, format_duration, format_moment
from kafka_dr.domain.readiness.plan import cool_down_told, table_cell

#: Shorter spans, in seconds, are printed in seconds; others in minutes and hours.
_SECONDS_BELOW = 120


def loss_markdown(plan: Mapping[str, Any], digest: str) -> str:
    """Return the gate's page as Markdown: how the source was found lost, what is lost, the groups concerned, digest."""
    override = plan["confirmed"].get("override")
    return "\n".join(
        [
            (
                f"**{plan['source']} is given up**, and clients go on with what **{plan['target']}** has. Reason:"
                f" {table_cell(plan['reason'])}"
            ),
            *cool_down_told(plan),
            "",
            f"{plan['source']}: {table_cell(plan['confirmed']['state'])}, {table_cell(plan['confirmed']['window'])}.",
            _last_seen(plan["source"], SourceLastSeen(**plan["seen"])),
            *(
                [f"**It was not found lost. The starter overrides this, because:** {table_cell(override)}"]
                if override
                else []
            ),
            *_taken_over(plan),
            "",
            *_unfenced(plan),
            *_figures(plan),
            *_rereads(plan),
            "",
            *_loss_table(plan["loss"]),
            "",
            *_group_table(plan["groups"]),
            "",
            *_deleted_topics(plan),
            "What cannot be proven:" if plan["unproven"] else "Nothing is left unproven.",
            *[f"- {table_cell(note)}" for note in plan["unproven"]],
            "",
            f"There is no way back but a failback. Plan digest `{digest}`",
        ]
    )


def _taken_over(plan: Mapping[str, Any]) -> list[str]:
    """Return Markdown lines on facts taken over from the planned run that this run continues; empty without one."""
    earlier, source, target = plan.get("continues"), plan["source"], plan["target"]
    if not earlier:
        return []
    sentences = {
        "partitions": (
            f"{earlier['partitions']} partitions ended for good on {source} when it was fenced, at"
            f" {earlier['fenced_at']}: no record after that is lost."
        ),
        "drained": f"{earlier['drained']} of them are drained: what stands below that end is on {target}.",
        "missing": (
            f"{earlier['missing']} records below that end were not found on {target}, or were deleted there: these are"
            " lost."
        ),
        "positions": (
            f"{earlier['positions']} positions are final: their groups were stopped there and can have consumed nothing"
            " since."
        ),
    }
    lines = [f"- {line}" for name, line in sentences.items() if earlier[name]]
    return [
        "",
        f"**This continues {table_cell(earlier['procedure_id'])}.** Taken from it as proven:",
        "",
        *(lines or ["- nothing."]),
    ]


def _last_seen(source: str, seen: SourceLastSeen) -> str:
    """Return sentences on when the source was last sampled, last seen, and looked for.

    Of the records that the source accepted after the last sample, only the estimate on the page tells.
    """
    last_seen_at, seen_by = max(
        (
            (at, seen_by)
            for at, seen_by in (
                (seen.heartbeat_at, "by a heartbeat that was mirrored"),
                (seen.read_at, "when it was read for this inventory"),
            )
            if at is not None
        ),
        default=(None, ""),
    )
    if seen.recorded_at is None:
        no_sample = (
            "**There was no sample of it in the recorder's archive**" if seen.recorder else "**There was no recorder**"
        )
        return f"{no_sample}: nobody wrote down where the logs of {source} ended." + (
            f" It was seen at {_moment(last_seen_at)}, {seen_by}." if last_seen_at is not None else ""
        )
    later = (
        f"{_time_between(seen.recorded_at, last_seen_at)} before the source was last seen, {seen_by}"
        if last_seen_at is not None and last_seen_at > seen.recorded_at
        else "and nothing saw the source after that"
    )
    search = (
        f" The run began to look for it {_time_between(seen.recorded_at, seen.looked_for_at)} after that sample."
        if seen.looked_for_at is not None
        else ""
    )
    return f"The recorder's last sample of {source} was made at {_moment(seen.recorded_at)}, {later}.{search}"


def _time_between(earlier: int, later: int) -> str:
    """Return the time from `earlier` to `later`, both in milliseconds since 1970, as text."""
    seconds = max(0, round((later - earlier) / 1000))
    return count_of(seconds, "second") if seconds < _SECONDS_BELOW else format_duration(seconds)


def _unfenced(plan: Mapping[str, Any]) -> list[str]:
    """Return a warning that source and target may both accept writes until the source is fenced.

    A fence that the continued run had proven gives a milder text; empty unless the fence is armed or asked of the hook.
    """
    source, fence, earlier = plan["source"], plan["confirmed"].get("fence"), plan.get("continues") or {}
    if fence == ARMED and earlier.get("fenced_at"):
        return [
            (
                f"**{source} was fenced by {table_cell(earlier['procedure_id'])} before it was lost.** Its ACLs deny"
                " the same when it answers again; the watcher looks whether they do, and what it accepted if not is"
                " listed."
            ),
            "",
        ]
    window = (
        f"it may accept writes from its first answer until the watcher's fence, while {plan['target']} accepts"
        " them, too"
    )
    warnings = {
        ARMED: (
            f"**{source} cannot be fenced now: {window}.** How long that was is measured, and what it accepted is"
            " listed."
        ),
        BY_HOOK: (
            f"**{source} cannot be fenced by its ACLs now.** The fence hook is asked to keep clients from it; where it"
            f" does not, {window}."
        ),
    }
    return [warnings[fence], ""] if fence in warnings else []


def _figures(plan: Mapping[str, Any]) -> list[str]:
    inventory = plan["inventory"]
    possible, rate = inventory["possible"], inventory["records_per_second"]
    at_most = f"at most {possible}" if possible is not None else "nobody knows how many at most"
    return [
        (
            f"**Certainly lost: {inventory['certain']} records.** Possibly lost: {at_most}. {inventory['losing']} of"
            f" {inventory['partitions']} partitions are concerned."
        ),
        *(
            [f"{inventory['unknown']} partitions were never sampled: of these nothing is known."]
            if inventory["unknown"]
            else []
        ),
        *(
            [f"Estimate, from how fast the source grew when it was seen last: {rate} records a second."]
            if rate is not None
            else []
        ),
        *([listed] if (listed := what_was_listed(plan["source"], inventory)) else []),
        f"{inventory['groups_ahead']} groups had consumed records that may never have reached the target.",
    ]


def what_was_listed(source: str, inventory: Mapping[str, Any]) -> str:
    """Return sentences on the lost records as read on the source, or that it was not read; empty without loss."""
    records = inventory.get("records")
    if not inventory.get("losing"):
        return ""
    if records is None:
        return (
            f"{source} was not read: of what is lost bytes, timestamps, and open or aborted transactions are not known."
        )
    if not records:
        return f"{source} was read: it held no record that may be lost."
    read = (
        f"{source} was read: it held {records} records that may be lost, {inventory['bytes']} bytes of keys and values,"
        f" with timestamps from {_moment(inventory['first_at'])} to {_moment(inventory['last_at'])}."
    )
    return (
        f"{read} Of these {inventory['aborted']} are of aborted transactions, and {inventory['undecided']} are"
        " undecided, since a transaction before them is still open."
    )


def _rereads(plan: Mapping[str, Any]) -> list[str]:
    """Return sentences on groups' re-reads, as far as known before positions are translated; empty if unknown."""
    rereads = plan.get("rereads")
    if not rereads or not rereads["positions"]:
        return []
    moved, unknown, most = rereads["may_have_moved"], rereads["unknown"], rereads["bound"]
    return [
        *(
            [
                (
                    f"Read again by one position: at most {most} records, and what {plan['target']} takes until"
                    " MirrorMaker"
                    " 2 stands. The review shows what it comes to."
                )
            ]
            if most is not None
            else []
        ),
        *(
            [
                (
                    f"{moved} of {rereads['positions']} positions are of groups that may have gone on since they were"
                    " seen:"
                    f" these are taken to have read all that {plan['target']} holds."
                )
            ]
            if moved
            else []
        ),
        *([f"{unknown} of {rereads['positions']} positions may have no place on the target."] if unknown else []),
    ]


def _loss_table(loss: Sequence[Mapping[str, Any]]) -> list[str]:
    if not loss:
        return ["No partition loses a record."]
    largest = sorted(loss, key=lambda row: -((row["certain_to"] or row["from_offset"]) - row["from_offset"]))
    rows = [
        f"| {table_cell(row['topic'])}-{row['partition']} | {row['from_offset']} |"
        f" {offset_text(row['certain_to'], 'none')} |"
        f" {offset_text(row['possible_to'], 'no bound')} | {_moment(row['written_since'])} |"
        for row in largest[:ROWS_SHOWN]
    ]
    more = (
        [f"\n... and {len(loss) - ROWS_SHOWN} more partitions, each with no more that is certain.\n"]
        if len(loss) > ROWS_SHOWN
        else []
    )
    head = [
        "| partition on the source | lost from offset | certainly up to | possibly up to | written after |",
        "| --- | --- | --- | --- | --- |",
    ]
    return [*head, *rows, *more]


def _group_table(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    if not groups:
        return ["No group is known to have a position."]
    ordered = sorted(groups, key=lambda group: (-group["ahead"], -(group.get("rereads") or 0), group["group"]))
    rows = [
        f"| {table_cell(g['group'])} | {g['partitions']} | {g['ahead']} | {offset_text(g.get('rereads'), 'unknown')} |"
        f" {_moment(g['position_at'])} | {g['policy']} |"
        for g in ordered[:ROWS_SHOWN]
    ]
    more = [f"\n... and {len(groups) - ROWS_SHOWN} more groups.\n"] if len(groups) > ROWS_SHOWN else []
    head = [
        (
            "| group | partitions | of these beyond what was replicated | read again on one at most | oldest position"
            " seen at | policy without evidence |"
        ),
        "| --- | --- | --- | --- | --- | --- |",
    ]
    return [*head, *rows, *more]


def _deleted_topics(plan: Mapping[str, Any]) -> list[str]:
    topics = plan["gone"]
    if not topics:
        return []
    return [
        (
            f"{len(topics)} topics are no part of this: {plan['source']} had deleted them before. What {plan['target']}"
            f" has of them is left as it is: {table_cell(first_few(topics, ROWS_SHOWN))}."
        ),
        "",
    ]


def _moment(at: int | None) -> str:
    return "unknown" if at is None else format_moment(datetime.fromtimestamp(at / 1000, UTC).isoformat())
