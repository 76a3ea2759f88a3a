"""The gate's page of an unplanned failover, as Markdown: the plan, as its approver reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kafka_dr.domain.clients.inventory import clients_markdown
from kafka_dr.domain.fencing.armed_fence import ARMED, BY_HOOK
from kafka_dr.domain.flow_graph.section import flows_markdown
from kafka_dr.domain.loss.loss_plan import ROWS_SHOWN, SourceLastSeen, offset_text
from kafka_dr.domain.mirror_maker.offset_option import option_markdown
from kafka_dr.domain.objectives.forecast import loss_forecast
from kafka_dr.domain.plain_text import count_of, first_few, format_duration, format_moment, table_cell
from kafka_dr.domain.readiness.plan import cool_down_told, opening_lines
from kafka_dr.domain.readiness.terms import terms_markdown

#: Shorter spans, in seconds, are printed in seconds; others in minutes and hours.
_SECONDS_BELOW = 120


def loss_markdown(plan: Mapping[str, Any], digest: str) -> str:
    """Return the gate's page as Markdown: how the source was checked, what is lost, the groups, the plan's digest."""
    override = plan["confirmed"].get("override")
    return "\n".join(
        [
            *[f"**{table_cell(warning)}**\n" for warning in plan.get("warnings", ())],
            (
                f"Move all clients to **{plan['target']}** without the records that only **{plan['source']}** has."
                f" Reason: {table_cell(plan['reason'])}"
            ),
            *cool_down_told(plan),
            "",
            (
                f"State of {plan['source']}: {table_cell(plan['confirmed']['state'])}. Checks:"
                f" {table_cell(plan['confirmed']['window'])}."
            ),
            _last_seen(plan["source"], SourceLastSeen(**plan["seen"])),
            *(
                [
                    (
                        f"**The checks did not show that {plan['source']} is lost. The starter overrides the checks,"
                        f" because:** {table_cell(override)}"
                    )
                ]
                if override
                else []
            ),
            *_taken_over(plan),
            "",
            *_unfenced(plan),
            *loss_forecast(plan),
            *option_markdown(plan),
            *_figures(plan),
            *_rereads(plan),
            "",
            *_loss_table(plan["loss"]),
            "",
            *_group_table(plan["groups"]),
            *clients_markdown(plan.get("clients", ())),
            "",
            *_deleted_topics(plan),
            *opening_lines(plan),
            *flows_markdown(plan.get("flows", {}), plan["source"]),
            "What cannot be proven:" if plan["unproven"] else "What cannot be proven: nothing.",
            *[f"- {table_cell(note)}" for note in plan["unproven"]],
            "",
            (
                f"Once open_target has begun, clients come back to {plan['source']} only by a failback. Plan digest"
                f" `{digest}`"
            ),
            "",
            *terms_markdown(plan.get("terms", {})),
        ]
    )


def _taken_over(plan: Mapping[str, Any]) -> list[str]:
    """Return Markdown lines on the planned run that is continued, and what it has proven; [] if none is continued."""
    earlier, source, target = plan.get("continues"), plan["source"], plan["target"]
    if not earlier:
        return []
    sentences = {
        "partitions": (
            f"{earlier['partitions']} partitions have final log ends on {source}, which was fenced at"
            f" {earlier['fenced_at']}: no record above these log ends is lost."
        ),
        "drained": (
            f"{earlier['drained']} of these partitions are drained: {target} has all records below these log ends."
        ),
        "missing": (
            f"{earlier['missing']} records below these log ends were not found on {target}, or were deleted on"
            f" {target}: these records are lost."
        ),
        "positions": (
            f"{earlier['positions']} positions are final: their groups were stopped on {source} and cannot have"
            " consumed a record since."
        ),
    }
    lines = [f"- {line}" for name, line in sentences.items() if earlier[name]]
    return [
        "",
        f"**This run continues {table_cell(earlier['procedure_id'])}.** What that run has proven, and this run uses:",
        "",
        *(lines or ["- nothing."]),
    ]


def _last_seen(source: str, seen: SourceLastSeen) -> str:
    """Return sentences on when the source was last sampled, when the source last answered, and when it was checked.

    Records that the source accepted after the last sample are only estimated on the page.
    """
    last_seen_at, seen_by = max(
        (
            (at, seen_by)
            for at, seen_by in (
                (seen.heartbeat_at, "by a mirrored heartbeat"),
                (seen.read_at, "when it was read for this inventory"),
            )
            if at is not None
        ),
        default=(None, ""),
    )
    if seen.recorded_at is None:
        no_sample = (
            f"**The recorder's archive has no sample of {source}**" if seen.recorder else "**There was no recorder**"
        )
        return f"{no_sample}: the log ends of {source} are not recorded." + (
            f" {source} was last observed at {_moment(last_seen_at)}, {seen_by}." if last_seen_at is not None else ""
        )
    later = (
        f"{_time_between(seen.recorded_at, last_seen_at)} before {source} was last observed, {seen_by}"
        if last_seen_at is not None and last_seen_at > seen.recorded_at
        else f"and {source} was not observed after that"
    )
    search = (
        f" The run began to check {source} {_time_between(seen.recorded_at, seen.looked_for_at)} after that sample."
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

    Empty unless the fence is armed or the fence hook is to be asked. If the run continues a run that had proven a
    fence, the warning is milder.
    """
    source, fence, earlier = plan["source"], plan["confirmed"].get("fence"), plan.get("continues") or {}
    if fence == ARMED and earlier.get("fenced_at"):
        return [
            (
                f"**{source} was fenced by {table_cell(earlier['procedure_id'])} before {source} was lost.** The ACL"
                f" entries of that fence apply again when {source} answers. The watcher then checks the fence, and"
                f" lists the records that {source} accepted in spite of the fence."
            ),
            "",
        ]
    window = (
        f"from its first answer until the watcher has fenced it, {source} may accept writes while {plan['target']}"
        " accepts writes, too"
    )
    warnings = {
        ARMED: (
            f"**{source} cannot be fenced now: {window}.** That time is measured, and the records that {source} accepts"
            " in that time are listed."
        ),
        BY_HOOK: (
            f"**{source} cannot be fenced by its ACLs now.** The fence hook is asked to keep clients from {source}. If"
            f" the hook does not do that: {window}."
        ),
    }
    return [warnings[fence], ""] if fence in warnings else []


def _figures(plan: Mapping[str, Any]) -> list[str]:
    inventory = plan["inventory"]
    possible, rate = inventory["possible"], inventory["records_per_second"]
    at_most = f"at most {possible}" if possible is not None else "the upper bound is unknown"
    return [
        (
            f"**Certainly lost: {inventory['certain']} records.** Possibly lost: {at_most}. {inventory['losing']} of"
            f" {inventory['partitions']} partitions may lose records."
        ),
        *(
            [f"{inventory['unknown']} partitions were never sampled by the recorder: their log ends are unknown."]
            if inventory["unknown"]
            else []
        ),
        *(
            [f"Estimate: when {plan['source']} was last sampled, its logs grew by {rate} records a second."]
            if rate is not None
            else []
        ),
        *([listed] if (listed := what_was_listed(plan["source"], inventory)) else []),
        f"{inventory['groups_ahead']} groups had consumed records that may not be on {plan['target']}.",
    ]


def loss_figures(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the loss and the re-reads to decide by, as sentences for a notice; they name no group and no topic."""
    return tuple(line.replace("**", "") for line in (*_figures(plan), *_rereads(plan)))


def what_was_listed(source: str, inventory: Mapping[str, Any]) -> str:
    """Return sentences on the lost records as read on the source; empty without loss.

    If the source, or a partition of it, was not read, the sentences say so.
    """
    records = inventory.get("records")
    if not inventory.get("losing"):
        return ""
    if records is None:
        return f"{source} was not read: bytes, timestamps and transactions of the lost records are unknown."
    if not (records or inventory.get("unread")):
        return f"{source} was read: it held no record that may be lost."
    read = (
        f"{source} was read: it held {records} records that may be lost, {inventory['bytes']} bytes of keys and values,"
        f" with timestamps from {_moment(inventory['first_at'])} to {_moment(inventory['last_at'])}."
    )
    unread = inventory.get("unread")
    if unread:
        read += (
            f" {count_of(unread, 'partition')} that may lose records could not be read: their records are not counted."
        )
    return (
        f"{read} Of these records {inventory['aborted']} belong to aborted transactions, and {inventory['undecided']}"
        " are undecided, because a transaction that began before them is still open."
    )


def _rereads(plan: Mapping[str, Any]) -> list[str]:
    """Return sentences on groups' re-reads as computed before MirrorMaker 2 is stopped; [] if none were computed."""
    rereads = plan.get("rereads")
    if not rereads or not rereads["positions"]:
        return []
    moved, unknown, most = rereads["may_have_moved"], rereads["unknown"], rereads["bound"]
    return [
        *(
            [
                (
                    f"Records that a group reads again on one partition: at most {most}, and those that"
                    f" {plan['target']} receives until MirrorMaker 2 is stopped. The question of review_translation"
                    " shows the final figure."
                )
            ]
            if most is not None
            else []
        ),
        *(
            [
                (
                    f"{moved} of {rereads['positions']} positions belong to groups that may have committed later"
                    " positions: the bound assumes that these groups have read all records that"
                    f" {plan['target']} has."
                )
            ]
            if moved
            else []
        ),
        *(
            [f"{unknown} of {rereads['positions']} positions may have no matching offset on {plan['target']}."]
            if unknown
            else []
        ),
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
        [f"\n... and {len(loss) - ROWS_SHOWN} more partitions, none with a larger certain loss.\n"]
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
        return ["No position of any group was sampled."]
    ordered = sorted(groups, key=lambda group: (-group["ahead"], -(group.get("rereads") or 0), group["group"]))
    rows = [
        f"| {table_cell(g['group'])} | {g['partitions']} | {g['ahead']} | {offset_text(g.get('rereads'), 'unknown')} |"
        f" {_moment(g['position_at'])} | {g['policy']} |"
        for g in ordered[:ROWS_SHOWN]
    ]
    more = [f"\n... and {len(groups) - ROWS_SHOWN} more groups.\n"] if len(groups) > ROWS_SHOWN else []
    head = [
        (
            "| group | partitions | partitions with consumed records that may not be on the target | records read again"
            " on one partition, at most | oldest position sampled at | policy if no evidence gives a position |"
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
            f"{len(topics)} topics do not move, because they were already deleted on {plan['source']}. Their copies on"
            f" {plan['target']} remain unchanged: {table_cell(first_few(topics, ROWS_SHOWN))}."
        ),
        "",
    ]


def _moment(at: int | None) -> str:
    return "unknown" if at is None else format_moment(datetime.fromtimestamp(at / 1000, UTC).isoformat())
