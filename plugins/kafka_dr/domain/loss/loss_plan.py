"""The plan of a run without its source, whose digest the approval names: what is lost, and what is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kafka_dr.domain.fencing.armed_fence import ARMED, BY_HOOK
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.plain_text import counted, duration, first_few, moment
from kafka_dr.domain.readiness.plan import cell, cool_down_told
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition

_SHOWN = 50
#: Longer ages are told in minutes and hours.
_WORDS_BELOW = 120


@dataclass(frozen=True)
class LastKnownGroup:
    """One group as it was seen last.

    Attributes:
        position_at: when its oldest position was seen, in milliseconds since 1970; None where nobody knows.
        ahead: partitions on which it had consumed what may never have reached the target.
        rereads: the most records that it may be given again on one partition, as far as known before MirrorMaker 2
            stands; None where nobody knows.
    """

    group: str
    partitions: int
    policy: str
    active: bool
    position_at: int | None
    ahead: int
    rereads: int | None = None


@dataclass(frozen=True)
class LastSeen:
    """When the source was seen last, in milliseconds since 1970; None where it was not.

    Attributes:
        recorder: whether there is a flight recorder.
        recorded_at: when it sampled the source for the last time.
        heartbeat_at: when the newest heartbeat that was mirrored had been written.
        read_at: when it was read for the inventory.
        looked_for_at: when the run began to look whether it is lost.
    """

    recorder: bool
    recorded_at: int | None = None
    heartbeat_at: int | None = None
    read_at: int | None = None
    looked_for_at: int | None = None


@dataclass(frozen=True)
class LossPlan:
    """What one run without its source will do.

    Attributes:
        topics: [source name, name on the target, partitions, topic id as last seen].
        opening: ACL entries that will be removed on the target, as text.
        confirmed: how the source was found to be lost, the override's reason if it was not, and how it will be kept
            from its clients.
        inventory: the assessment's figures, its digest among them.
        loss: rows of loss: topic, partition, from_offset, certain_to, possible_to.
        unproven: what the run will not be able to prove.
        continues: the planned run that this one goes on from, and what is taken from it as proven.
        gone: topics that the source had deleted when it was seen last: no part of what moves.
        seen: when the source was seen last, and by whom, in milliseconds since 1970: as of `LastSeen`.
        rereads: `bound`, the most that one position may be given again as far as known before MirrorMaker 2 stands
            (None without any); of how many `positions`; of how many of them `unknown`; how many are of groups that
            `may_have_moved` since.
        cool_down: the cool-down that is not waited for, and why: as in `Plan`.
    """

    procedure_id: str
    dag_id: str
    source: str
    target: str
    reason: str
    naming: str
    connectors: Mapping[str, str]
    topics: tuple[tuple[str, str, int, str | None], ...]
    groups: tuple[LastKnownGroup, ...]
    opening: tuple[str, ...]
    deadlines: Mapping[str, float]
    confirmed: Mapping[str, Any]
    inventory: Mapping[str, Any]
    loss: tuple[Mapping[str, Any], ...]
    unproven: tuple[str, ...] = field(default_factory=tuple)
    continues: Mapping[str, Any] | None = None
    gone: tuple[str, ...] = ()
    seen: Mapping[str, Any] = field(default_factory=lambda: asdict(LastSeen(False)))
    rereads: Mapping[str, Any] | None = None
    cool_down: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain JSON data."""
        return asdict(self)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON."""
        return digest_of(self.as_dict())


def loss_markdown(plan: Mapping[str, Any], digest: str) -> str:
    """The inventory as an approver reads it: what is lost for certain, what may be, and who is concerned."""
    override = plan["confirmed"].get("override")
    return "\n".join(
        [
            (
                f"**{plan['source']} is given up**, and clients go on with what **{plan['target']}** has. Reason:"
                f" {cell(plan['reason'])}"
            ),
            *cool_down_told(plan),
            "",
            f"{plan['source']}: {cell(plan['confirmed']['state'])}, {cell(plan['confirmed']['window'])}.",
            _last_seen(plan["source"], LastSeen(**plan["seen"])),
            *(
                [f"**It was not found lost. The starter overrides this, because:** {cell(override)}"]
                if override
                else []
            ),
            *_continued(plan),
            "",
            *_unfenced(plan),
            *_figures(plan),
            *_rereads(plan),
            "",
            *_loss_table(plan["loss"]),
            "",
            *_group_table(plan["groups"]),
            "",
            *_gone(plan),
            "What cannot be proven:" if plan["unproven"] else "Nothing is left unproven.",
            *[f"- {cell(note)}" for note in plan["unproven"]],
            "",
            f"There is no way back but a failback. Plan digest `{digest}`",
        ]
    )


def _continued(plan: Mapping[str, Any]) -> list[str]:
    """What is taken from the planned run that this one continues."""
    told, source, target = plan.get("continues"), plan["source"], plan["target"]
    if not told:
        return []
    taken = {
        "partitions": (
            f"{told['partitions']} partitions ended for good on {source} when it was fenced, at {told['fenced_at']}: no"
            " record after that is lost."
        ),
        "drained": f"{told['drained']} of them are drained: what stands below that end is on {target}.",
        "missing": (
            f"{told['missing']} records below that end were not found on {target}, or were deleted there: these are"
            " lost."
        ),
        "positions": (
            f"{told['positions']} positions are final: their groups were stopped there and can have consumed nothing"
            " since."
        ),
    }
    lines = [f"- {line}" for name, line in taken.items() if told[name]]
    return [
        "",
        f"**This continues {cell(told['procedure_id'])}.** Taken from it as proven:",
        "",
        *(lines or ["- nothing."]),
    ]


def _last_seen(source: str, seen: LastSeen) -> str:
    """The last sample and how old it is: what the source took after that stands in no figure but the estimate."""
    last, by = max(
        (
            (at, by)
            for at, by in (
                (seen.heartbeat_at, "by a heartbeat that was mirrored"),
                (seen.read_at, "when it was read for this inventory"),
            )
            if at is not None
        ),
        default=(None, ""),
    )
    if seen.recorded_at is None:
        lacking = (
            "**There was no sample of it in the recorder's archive**" if seen.recorder else "**There was no recorder**"
        )
        return f"{lacking}: nobody wrote down where the logs of {source} ended." + (
            f" It was seen at {_moment(last)}, {by}." if last is not None else ""
        )
    later = (
        f"{_apart(seen.recorded_at, last)} before the source was last seen, {by}"
        if last is not None and last > seen.recorded_at
        else "and nothing saw the source after that"
    )
    looked = (
        f" The run began to look for it {_apart(seen.recorded_at, seen.looked_for_at)} after that sample."
        if seen.looked_for_at is not None
        else ""
    )
    return f"The recorder's last sample of {source} was made at {_moment(seen.recorded_at)}, {later}.{looked}"


def _apart(earlier: int, later: int) -> str:
    """Between two times in milliseconds, for people."""
    seconds = max(0, round((later - earlier) / 1000))
    return counted(seconds, "second") if seconds < _WORDS_BELOW else duration(seconds)


def _unfenced(plan: Mapping[str, Any]) -> list[str]:
    """Tell that both sides may accept writes for a while, as approval accepts, unless a fence was proven before."""
    source, fence, earlier = plan["source"], plan["confirmed"].get("fence"), plan.get("continues") or {}
    if fence == ARMED and earlier.get("fenced_at"):
        return [
            (
                f"**{source} was fenced by {cell(earlier['procedure_id'])} before it was lost.** Its ACLs deny the same"
                " when it answers again; the watcher looks whether they do, and what it accepted if not is listed."
            ),
            "",
        ]
    window = (
        f"it may accept writes from its first answer until the watcher's fence, while {plan['target']} accepts"
        " them, too"
    )
    told = {
        ARMED: (
            f"**{source} cannot be fenced now: {window}.** How long that was is measured, and what it accepted is"
            " listed."
        ),
        BY_HOOK: (
            f"**{source} cannot be fenced by its ACLs now.** The fence hook is asked to keep clients from it; where it"
            f" does not, {window}."
        ),
    }
    return [told[fence], ""] if fence in told else []


def _figures(plan: Mapping[str, Any]) -> list[str]:
    inventory = plan["inventory"]
    possible, rate = inventory["possible"], inventory["records_per_second"]
    known = f"at most {possible}" if possible is not None else "nobody knows how many at most"
    return [
        (
            f"**Certainly lost: {inventory['certain']} records.** Possibly lost: {known}. {inventory['losing']} of"
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
    """Lost records that were read: count, size, times, uncommitted ones; or that none were. Empty without loss."""
    records = inventory.get("records")
    if not inventory.get("losing"):
        return ""
    if records is None:
        return (
            f"{source} was not read: of what is lost bytes, timestamps, and open or aborted transactions are not known."
        )
    if not records:
        return f"{source} was read: it held no record that may be lost."
    held = (
        f"{source} was read: it held {records} records that may be lost, {inventory['bytes']} bytes of keys and values,"
        f" with timestamps from {_moment(inventory['first_at'])} to {_moment(inventory['last_at'])}."
    )
    return (
        f"{held} Of these {inventory['aborted']} are of aborted transactions, and {inventory['undecided']} are"
        " undecided, since a transaction before them is still open."
    )


def _rereads(plan: Mapping[str, Any]) -> list[str]:
    """Rereads of groups, as far as known before MirrorMaker 2 stands and positions are translated."""
    told = plan.get("rereads")
    if not told or not told["positions"]:
        return []
    moved, unknown, most = told["may_have_moved"], told["unknown"], told["bound"]
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
                    f"{moved} of {told['positions']} positions are of groups that may have gone on since they were"
                    " seen:"
                    f" these are taken to have read all that {plan['target']} holds."
                )
            ]
            if moved
            else []
        ),
        *([f"{unknown} of {told['positions']} positions may have no place on the target."] if unknown else []),
    ]


def _loss_table(loss: Sequence[Mapping[str, Any]]) -> list[str]:
    if not loss:
        return ["No partition loses a record."]
    largest = sorted(loss, key=lambda row: -((row["certain_to"] or row["from_offset"]) - row["from_offset"]))
    rows = [
        f"| {cell(row['topic'])}-{row['partition']} | {row['from_offset']} | {_end(row['certain_to'], 'none')} |"
        f" {_end(row['possible_to'], 'no bound')} | {_moment(row['written_since'])} |"
        for row in largest[:_SHOWN]
    ]
    more = (
        [f"\n... and {len(loss) - _SHOWN} more partitions, each with no more that is certain.\n"]
        if len(loss) > _SHOWN
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
        f"| {cell(g['group'])} | {g['partitions']} | {g['ahead']} | {_end(g.get('rereads'), 'unknown')} |"
        f" {_moment(g['position_at'])} | {g['policy']} |"
        for g in ordered[:_SHOWN]
    ]
    more = [f"\n... and {len(groups) - _SHOWN} more groups.\n"] if len(groups) > _SHOWN else []
    head = [
        (
            "| group | partitions | of these beyond what was replicated | read again on one at most | oldest position"
            " seen at | policy without evidence |"
        ),
        "| --- | --- | --- | --- | --- | --- |",
    ]
    return [*head, *rows, *more]


def _gone(plan: Mapping[str, Any]) -> list[str]:
    topics = plan["gone"]
    if not topics:
        return []
    return [
        (
            f"{len(topics)} topics are no part of this: {plan['source']} had deleted them before. What {plan['target']}"
            f" has of them is left as it is: {cell(first_few(topics, _SHOWN))}."
        ),
        "",
    ]


def _end(offset: int | None, otherwise: str) -> str:
    return otherwise if offset is None else str(offset)


def _moment(at: int | None) -> str:
    return "unknown" if at is None else moment(datetime.fromtimestamp(at / 1000, UTC).isoformat())


# -- after the approval --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoundSince:
    """What was found out since the loss was assessed, by partition of the source.

    Attributes:
        target_ends: where the target's log ended then, and where it ends now; None where it was, or is, not there.
            Without an entry nobody looked again.
        replicated: the last replicated offset that Connect kept once MirrorMaker 2 stood.
        accepted_to: where the source's log ends behind its fence, of partitions on which it accepted records since.
    """

    target_ends: Mapping[TopicPartition, tuple[int | None, int | None]] = field(default_factory=dict)
    replicated: Mapping[TopicPartition, int] = field(default_factory=dict)
    accepted_to: Mapping[TopicPartition, int] = field(default_factory=dict)


class Grown(NamedTuple):
    """A partition with more loss than approved; `approved` and `now`: from_offset, certain_to and possible_to.

    Attributes:
        approved: None where the partition was not part of the loss.
    """

    topic: str
    partition: int
    approved: Mapping[str, int | None] | None
    now: Mapping[str, int | None]
    why: str


def loss_now(approved: Sequence[Mapping[str, Any]], found: FoundSince) -> list[dict[str, Any]]:
    """The approved rows as they are by what was found out since; one that changed says why, and what was approved."""
    known = {TopicPartition(row["topic"], row["partition"]): row for row in approved}
    shrunk = {place for place, ends in found.target_ends.items() if _shrank(*ends)}
    return [_row_now(place, known.get(place), found) for place in sorted({*known, *shrunk, *found.accepted_to})]


def _row_now(place: TopicPartition, before: Mapping[str, Any] | None, found: FoundSince) -> dict[str, Any]:
    row = dict(
        before or {**place._asdict(), "from_offset": 0, "certain_to": None, "possible_to": None, "written_since": None}
    )
    (then, ends), end = found.target_ends.get(place, (None, None)), found.accepted_to.get(place)
    why = []
    if _shrank(then, ends):
        row |= {"from_offset": 0, "certain_to": None}
        why.append(
            f"the target's log {'is gone' if ends is None else f'ends at {ends}'}, and ended at {then} when the loss"
            " was assessed"
        )
    elif then != ends:
        # What came since may be the first of what was lost.
        row |= {"from_offset": max(row["from_offset"], found.replicated.get(place, -1) + 1), "certain_to": None}
        why.append("the target took records since the loss was assessed")
    if end is not None:
        # MirrorMaker 2 mirrors in order: above what it did not mirror nothing is on the target.
        certain = row["certain_to"]
        row |= {
            "possible_to": max(end, row["from_offset"]),
            "certain_to": max(end, certain) if certain is not None and place in found.target_ends else certain,
        }
        why.append(f"the source accepted records since the loss was assessed, and ends at {end}")
    if before is not None and not why:
        return row
    return row | {
        "records": None,
        "evidence": "; ".join(why),
        "accepted_to": end,
        "approved": before and _offsets(before),
    }


def _shrank(then: int | None, now: int | None) -> bool:
    return then is not None and (now is None or now < then)


def grown(approved: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[Grown]:
    """Partitions of which more is lost by newer evidence than was approved: then a person must be asked again.

    Args:
        approved: the plan's rows of loss.
        now: rows as of `loss_now`, and ranges that are missing below what was approved.
    """
    known = {(row["topic"], row["partition"]): row for row in approved}
    found = [(row, known.get((row["topic"], row["partition"]))) for row in now]
    return [
        Grown(row["topic"], row["partition"], before and _offsets(before), _offsets(row), f"{more}: {_because(row)}")
        for row, before in found
        if (more := _more(before, row))
    ]


def _more(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str | None:
    first, to = now["from_offset"], now["possible_to"]
    if to is not None and to <= first:
        return None
    if before is None:
        return f"it was not among what is lost, and loses records from {first} on"
    if first < before["from_offset"]:
        return f"it loses records from {first} on, not from {before['from_offset']}"
    if before["possible_to"] is not None and (to is None or to > before["possible_to"]):
        return f"it loses records up to {_end(to, 'an unknown end')}, not to {before['possible_to']}"
    if (
        before["possible_to"] is None
        and before["certain_to"] is not None
        and (now["certain_to"] or 0) > before["certain_to"]
    ):
        return f"it certainly loses records up to {now['certain_to']}, not to {before['certain_to']}"
    if before["possible_to"] is None and now.get("accepted_to") is not None:
        return f"it loses more records up to {now['accepted_to']}, unless they are on the target"
    return None


def _because(row: Mapping[str, Any]) -> str:
    return str(row.get("reason") or row.get("evidence"))


def _offsets(row: Mapping[str, Any]) -> dict[str, int | None]:
    return {name: row[name] for name in ("from_offset", "certain_to", "possible_to")}


def review_digest(translation: str, more: Sequence[Grown]) -> str:
    """The digest that the review's answer names: of the translation, or of translation and grown loss together."""
    return digest_of({"translation": translation, "loss": [one._asdict() for one in more]}) if more else translation


def grown_markdown(more: Sequence[Grown]) -> list[str]:
    """What is lost beyond what was approved, beside it; nothing where nothing is."""
    if not more:
        return []
    rows = [
        f"| {cell(one.topic)}-{one.partition} | {_range(one.approved)} | {_range(one.now)} | {cell(one.why)} |"
        for one in more[:_SHOWN]
    ]
    left = [f"\n... and {len(more) - _SHOWN} more partitions.\n"] if len(more) > _SHOWN else []
    head = [
        (
            "| partition on the source | approved: lost from, certainly to, possibly to | now: lost from, certainly to,"
            " possibly to | why |"
        ),
        "| --- | --- | --- | --- |",
    ]
    return [
        (
            f"**More is lost than was approved, on {len(more)} partitions.** Whoever approves these positions approves"
            " that, too."
        ),
        "",
        *head,
        *rows,
        *left,
        "",
    ]


def _range(row: Mapping[str, int | None] | None) -> str:
    return (
        "nothing"
        if row is None
        else f"{row['from_offset']}, {_end(row['certain_to'], 'none')}, {_end(row['possible_to'], 'no bound')}"
    )
