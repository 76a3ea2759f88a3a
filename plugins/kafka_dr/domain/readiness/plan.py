"""The plan of a run: all of its planned acts. Approvals name the plan's digest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from kafka_dr.domain.access.differences_page import access_markdown, differences_markdown
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.clients.inventory import ClientsOfKind, clients_markdown
from kafka_dr.domain.flow_graph.section import flows_markdown
from kafka_dr.domain.mirror_maker.offset_option import option_markdown
from kafka_dr.domain.objectives.forecast import move_forecast
from kafka_dr.domain.plain_text import format_moment, table_cell
from kafka_dr.domain.readiness.terms import terms_markdown
from kafka_dr.vocabulary import TranslationClass

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class GroupForecast:
    """What the plan forecasts for one group.

    Attributes:
        partitions: number of partitions on which the group has a position.
        lag: number of source offsets from the group's positions up to the log ends.
        policy: the topology's policy for the group: `earliest`, `boundary` or `fail`.
        active: whether the group has members on the source.
        mirror_maker_rereads: number of records that the group would read again if it continued at MirrorMaker 2's own
            checkpoints; None without a checkpoint.
        expected: translation class -> number of the group's partitions that get this class if the source can be read,
            by the group's present positions. All classes but REFUSED then give exact positions.
    """

    group: str
    partitions: int
    lag: int
    policy: str
    active: bool
    mirror_maker_rereads: int | None
    expected: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ExcludedGroup:
    """A group that drain_consumers does not wait for: the reason, and the policy for its positions on the target."""

    group: str
    reason: str
    policy: str
    partitions: int
    lag: int
    active: bool


def unknown_groups(wanted: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the `wanted` groups that are not among `known`, as text, each with the most similar names of `known`."""
    names = sorted(known)
    unknown = [(group, get_close_matches(group, names, n=5, cutoff=0.5)) for group in sorted(set(wanted) - set(names))]
    return [f"{group!a} (similar: {', '.join(map(ascii, alike)) if alike else 'none'})" for group, alike in unknown]


def expected_classes(positions: pd.DataFrame) -> pd.Series:
    """Return the translation class to expect for each position if the source can be read.

    Args:
        positions: with the columns `position`, `end` (log end of the source partition), and `synced` (whether an offset
            sync names exactly this position).
    """
    position, end = positions["position"], positions["end"]
    between = positions["synced"].map({True: TranslationClass.SYNC.value, False: TranslationClass.CONTENT.value})
    return between.mask(position == end, TranslationClass.END.value).mask(
        (position < 0) | (position > end), TranslationClass.REFUSED.value
    )


@dataclass(frozen=True)
class FailoverPlan:
    """What one run will do.

    Attributes:
        topics: per topic: source name, name on the target, number of partitions, topic id on the source.
        fence: ACL entries that will be added on the source, as text.
        fence_removes: ALLOW entries for User:* that will be removed on the source afterwards, as text.
        fence_modes: how the fence works -> number of topics and groups.
        opening: ACL entries that will be removed on the target, as text.
        opening_adds: ALLOW entries for User:*, which an earlier fence replaced, that will be added on the target, as
            text.
        denials: entries that will be added on the target so that the old flow writes no more, as text.
        unproven: what the run will not be able to prove.
        excluded: groups that are fenced like all other groups, but that drain_consumers does not wait for.
        abort_open_transactions: whether transactions that stay open behind the fence are aborted.
        lag: upper bound of the number of source records that MirrorMaker 2 has not replicated when the plan is made.
        drain_seconds: estimated seconds until these records are replicated; None if no replication rate was measured.
        cool_down: the cool-down that is not waited for: the earlier procedure, its outcome and end, the end of the
            cool-down, and the starter's reason; None if no cool-down was running.
        copies: source topic that MirrorMaker 2 mirrored from the target under a prefixed name, such as `dr.orders` ->
            the topic on the target from which it was mirrored, such as `orders`; groups read this topic after the move.
        terms: clusters, topology, deadlines and approvers of the run, with the fields of `Terms`.
        objectives: of the flow from source to target, as the topology states them; None if it states none.
        offset_option: of the flow, with the fields of `view_option`; {} for a drill.
        clients: clients of every kind on the source: what the run does with them, and what their owners must do.
        access: by application, what its own login showed on the target; {} if the topology names none.
        differences: how the target differs for clients: `count`, the first ones as `shown`, and the `file` with all of
            them; {} for a drill.
        flows: what becomes of all flows, and what readers find afterwards, as of `flows_section`.
    """

    procedure_id: str
    dag_id: str
    source: str
    target: str
    reason: str
    naming: str
    connectors: Mapping[str, str]
    topics: tuple[tuple[str, str, int, str], ...]
    groups: tuple[GroupForecast, ...]
    fence: tuple[str, ...]
    opening: tuple[str, ...]
    deadlines: Mapping[str, float]
    start_reverse: bool
    lag: int
    drain_seconds: float | None
    unproven: tuple[str, ...] = field(default_factory=tuple)
    excluded: tuple[ExcludedGroup, ...] = ()
    abort_open_transactions: bool = False
    cool_down: Mapping[str, Any] | None = None
    copies: Mapping[str, str] = field(default_factory=dict)
    fence_removes: tuple[str, ...] = ()
    fence_modes: Mapping[str, int] = field(default_factory=dict)
    opening_adds: tuple[str, ...] = ()
    denials: tuple[str, ...] = ()
    terms: Mapping[str, Any] = field(default_factory=dict)
    objectives: Mapping[str, Any] | None = None
    offset_option: Mapping[str, Any] = field(default_factory=dict)
    clients: tuple[ClientsOfKind, ...] = ()
    access: Mapping[str, str] = field(default_factory=dict)
    differences: Mapping[str, Any] = field(default_factory=dict)
    flows: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON data."""
        return asdict(self)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON, in hexadecimal; an approval names this digest."""
        return digest_of(self.as_dict())


def plan_markdown(plan: Mapping[str, Any], digest: str) -> str:
    """Return the gate's page as Markdown: what the run will do, what it means for each group, the plan's digest."""
    groups = sorted(plan["groups"], key=lambda g: -g["lag"])
    rows = [
        f"| {table_cell(g['group'])} | {g['partitions']} | {g['lag']} | {_expected(g)} | {_rereads(g)} |"
        f" {'yes' if g['active'] else 'no'} |"
        for g in groups[:50]
    ]
    more = [f"\n... and {len(groups) - 50} more groups, none with more lag.\n"] if len(groups) > 50 else []
    unproven = [f"- {table_cell(note)}" for note in plan["unproven"]]
    return "\n".join(
        [
            f"Move all clients from **{plan['source']}** to **{plan['target']}**. Reason: {table_cell(plan['reason'])}",
            *cool_down_told(plan),
            "",
            f"{len(plan['topics'])} topics, {len(groups)} groups, {plan['lag']} records to replicate"
            + (
                f", which takes about {plan['drain_seconds']:.0f} s."
                if plan["drain_seconds"] is not None
                else ". How long that takes is unknown, because no replication rate could be measured."
            ),
            "",
            *move_forecast(plan),
            *option_markdown(plan),
            _expectation(plan["groups"]),
            "",
            (
                "| group | partitions | lag | expected translation classes | records read again if MirrorMaker 2's"
                " checkpoints were used | active now |"
            ),
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            *more,
            *_excluded(plan.get("excluded", [])),
            *clients_markdown(plan.get("clients", ())),
            *_subscriptions(plan),
            "",
            *flows_markdown(plan.get("flows", {}), plan["source"]),
            *_fence_lines(plan),
            *opening_lines(plan),
            *access_markdown(plan),
            *differences_markdown(plan),
            _TRANSACTIONS[plan.get("abort_open_transactions", False)],
            "",
            "What cannot be proven:" if unproven else "What cannot be proven: nothing.",
            *unproven,
            "",
            (
                f"Clients are fenced for at most {plan['deadlines']['max_fence_seconds']:.0f} s: if open_target has not"
                f" begun by then, the procedure returns to {plan['source']} by itself."
            ),
            "",
            *terms_markdown(plan.get("terms", {})),
            f"Plan digest `{digest}`",
        ]
    )


def plan_figures(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the plan's figures to decide by, as sentences for a notice; they name no group and no topic."""
    drain = plan["drain_seconds"]
    return (
        f"{len(plan['topics'])} topics, {len(plan['groups'])} groups, {plan['lag']} records to replicate, which takes "
        + ("an unknown time." if drain is None else f"about {drain:.0f} s."),
        _expectation(plan["groups"]),
        f"Not provable: {len(plan['unproven'])} points, listed below the question.",
        f"Clients are fenced for at most {plan['deadlines']['max_fence_seconds']:.0f} s.",
    )


_NAMED = 20


def _fence_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return lines on how clients are fenced, and on what changes beyond the flow's topics and groups meanwhile."""
    modes = plan.get("fence_modes", {})
    if not modes:
        return []
    ways = "; ".join(f"{count} {mode}" for mode, count in modes.items())
    lines = [f"The fence adds {len(plan['fence'])} ACL entries on {plan['source']}. Topics and groups: {ways}.", ""]
    removed = plan.get("fence_removes", [])
    if removed:
        lines += [
            (
                f"**On {plan['source']}, {len(removed)} ALLOW entries for everyone are replaced:** {_named(removed)}."
                f" Until clients return to {plan['source']}, topics and groups that are created there under these"
                " entries refuse clients. All other topics and groups that are not part of the plan stay as they are."
            ),
            "",
        ]
    return lines


def opening_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return Markdown lines on the ACL entries that open_target adds on the target; [] if there are none."""
    added, denials = plan.get("opening_adds", []), plan.get("denials", [])
    lines = [
        (
            f"**open_target adds {len(added)} ALLOW entries for everyone on {plan['target']}**, which an earlier fence"
            f" had replaced: {_named(added)}."
        ),
        "",
    ]
    old_flow = [
        (
            f"open_target adds {len(denials)} ACL entries on {plan['target']} that keep MirrorMaker 2's flow"
            f" {plan['source']}->{plan['target']} from writing there, should somebody start it again. They stay until"
            " clients have left again."
        ),
        "",
    ]
    return [*(lines if added else []), *(old_flow if denials else [])]


def _named(entries: Sequence[str]) -> str:
    more = f" and {len(entries) - _NAMED} more" if len(entries) > _NAMED else ""
    return "; ".join(table_cell(entry) for entry in entries[:_NAMED]) + more


def _subscriptions(plan: Mapping[str, Any]) -> list[str]:
    """Return a table of topics that consumers must read under other names on the target; empty if all names stay."""
    source, target = plan["source"], plan["target"]
    rows = [
        f"| {table_cell(topic)} | {table_cell(remote)} | {table_cell(topic)} |"
        for topic, remote, *_ in plan["topics"]
        if topic != remote
    ]
    copies = [
        f"| {table_cell(copy)} | {table_cell(topic)} | {table_cell(topic)} |"
        for copy, topic in sorted(plan.get("copies", {}).items())
    ]
    if not rows and not copies:
        return []
    head = [
        "",
        f"**Consumers must subscribe to both names of a topic on {target}:**",
        "",
        f"| topic on {source} | on {target}: records from before the move | on {target}: records from after the move |",
        "| --- | --- | --- |",
    ]
    shown = [*rows, *copies]
    more = [f"\n... and {len(shown) - _NAMED} more topics, named in the same way."] if len(shown) > _NAMED else []
    return [*head, *shown[:_NAMED], *more]


def cool_down_told(plan: Mapping[str, Any]) -> list[str]:
    """Return Markdown lines on a cool-down that the run does not wait for; [] if no cool-down was running."""
    cool_down = plan.get("cool_down")
    if not cool_down:
        return []
    run, outcome = table_cell(cool_down["procedure_id"]), table_cell(cool_down["outcome"])
    ended = f"{run} ended as {outcome} at {format_moment(cool_down['ended_at'])}"
    return [
        "",
        (
            f"**{ended}, and its cool-down lasts until {format_moment(cool_down['ends_at'])}. The starter does not"
            f" wait until then, because:** {table_cell(cool_down['acknowledged'])}"
        ),
    ]


_TRANSACTIONS = {
    False: (
        "Switchback waits for transactions that stay open behind the fence, and aborts none of them: if a transaction"
        " is still open after the wait (transaction_seconds), the procedure returns to the source."
    ),
    True: (
        "**Transactions that stay open behind the fence for some seconds are aborted** as a whole: the"
        " applications cannot commit these transactions any more."
    ),
}

#: What each policy means for the positions of an excluded group on the target.
POLICY_MEANS = {
    "earliest": "the group begins at the log start on the target, and reads all records of the target again",
    "fail": "no position is written: auto.offset.reset of the consumers decides where the group begins",
    "boundary": "the group begins at the boundary, and never reads the records that it has not read by then",
}


def _excluded(excluded: Sequence[Mapping[str, Any]]) -> list[str]:
    if not excluded:
        return []
    rows = [
        f"| {table_cell(g['group'])} | {table_cell(g['reason'])} | {g['lag']} | {'yes' if g['active'] else 'no'} |"
        f" {g['policy']}: {POLICY_MEANS.get(g['policy'], 'as stated')} |"
        for g in excluded
    ]
    head = [
        "| excluded group | because | lag | active now | policy for its positions |",
        "| --- | --- | --- | --- | --- |",
    ]
    return [
        "",
        f"**{len(excluded)} groups are not waited for**, and are fenced like all other groups:",
        "",
        *head,
        *rows,
    ]


def _expectation(groups: Sequence[Mapping[str, Any]]) -> str:
    refused = sum(g["expected"].get(TranslationClass.REFUSED, 0) for g in groups)
    if refused:
        return (
            f"{refused} positions lie outside the logs of their partitions: a second person must decide on them in"
            " review_translation. Every other position is expected to be exact."
        )
    return (
        "Every position is expected to be exact: no record is skipped, and no record is read again except MirrorMaker"
        " 2's own repeats."
    )


def _expected(group: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(group["expected"].items())) or "no position"


def _rereads(group: Mapping[str, Any]) -> str:
    return "no checkpoint" if group["mirror_maker_rereads"] is None else str(group["mirror_maker_rereads"])
