"""Groups that read one cluster's records only, on an active-active pair, and where they begin after a move.

A group has a *local view* of a topic if it reads the cluster's own records only: `orders`, and not `west.orders`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from kafka_dr.domain.mirror_maker.naming import Naming
from kafka_dr.domain.plain_text import first_few, table_cell

#: The policy by which a group with a local view begins at the log end of the target's own topic.
BEGINS_AT_END = "boundary"


def local_views(
    reads: Iterable[tuple[str, str]], shared: Collection[str], naming: Naming, target: str
) -> frozenset[tuple[str, str]]:
    """Return (group, topic) for each group that reads a shared topic on the source, and not the target's copy of it.

    Args:
        reads: group and source topic, for each topic where a group has a position.
        shared: topics of one name that clients of both clusters write.
        target: the cluster where the groups go.
    """
    read = set(reads)
    return frozenset(
        (group, topic) for group, topic in read if topic in shared and (group, naming.remote(target, topic)) not in read
    )


def views_section(
    local: Iterable[tuple[str, str]], copies_lost: Iterable[str], policy_of: Callable[[str], str]
) -> dict[str, Any]:
    """Return `local_views` and `by_policy` as plain data: group -> the group's policy, each.

    Args:
        local: (group, topic), as of `local_views`.
        copies_lost: groups with positions on copies that were lost with the source, while their flow still copied.
    """
    return {
        "local_views": {group: policy_of(group) for group in sorted({group for group, _ in local})},
        "by_policy": {group: policy_of(group) for group in sorted(set(copies_lost))},
    }


def views_markdown(section: Mapping[str, Any], source: str) -> list[str]:
    """Return the sentences on local views, and on positions by policy, as Markdown lines; [] if there are none."""
    local, lost = section.get("local_views", {}), section.get("by_policy", {})
    at_end = [group for group, policy in local.items() if policy == BEGINS_AT_END]
    at_start = [group for group in local if group not in at_end]
    begin = (
        f"Groups that read topics of {source}, and not the other cluster's records of these topics (local view), begin"
        " at the log start of the new cluster's own topics, and read all records there"
    )
    at_last = (
        "Groups with a local view and policy boundary begin at the log end of the new cluster's own topics, and read"
        " only what is written from now on"
    )
    unknown = (
        f"Groups that read copies of the new cluster's records on {source} go by their policy in the originals,"
        " because the copies' flow ran until the loss, and nothing says how far the groups have read"
    )
    named = [f"{group} ({policy})" for group, policy in lost.items()]
    sentences = [(begin, at_start), (at_last, at_end), (unknown, named)]
    return [line for text, groups in sentences if groups for line in (f"{text}: {table_cell(first_few(groups))}.", "")]
