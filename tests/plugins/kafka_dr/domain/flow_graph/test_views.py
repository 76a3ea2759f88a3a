"""Who reads one cluster's records only, and where those begin on the other cluster of an active-active pair."""

from __future__ import annotations

from kafka_dr.domain.flow_graph.views import local_views, views_markdown, views_section
from kafka_dr.domain.mirror_maker.naming import NamingSpec, naming_of

NAMES = naming_of(NamingSpec(policy="default"), ("east", "west"))
READS = {("all", "orders"), ("all", "west.orders"), ("own", "orders"), ("own", "alone"), ("bound", "orders")}


def test_a_group_without_a_position_in_the_copy_has_a_local_view() -> None:
    """A topic that the other cluster lacks has no other records; and a copy of another cluster is not the target's."""
    assert local_views(READS, {"orders"}, NAMES, "west") == {("own", "orders"), ("bound", "orders")}
    assert ("all", "orders") in local_views(READS, {"orders"}, NAMES, "east")


def test_the_plan_says_where_each_of_them_begins() -> None:
    """By policy; groups of lost copies are named with theirs."""
    policies = {"bound": "boundary", "all": "fail"}
    local = local_views(READS, {"orders"}, NAMES, "west")
    section = views_section(local, ["all"], lambda group: policies.get(group, "earliest"))
    assert section == {"local_views": {"bound": "boundary", "own": "earliest"}, "by_policy": {"all": "fail"}}
    start, end, lost = views_markdown(section, "east")[::2]
    assert "log start" in start and start.endswith(": own.")
    assert "log end" in end and end.endswith(": bound.")
    assert "nothing says how far" in lost and lost.endswith(": all (fail).")


def test_nothing_is_said_of_other_pairs() -> None:
    """Their plans have no such section."""
    assert views_markdown({}, "east") == [] == views_markdown(views_section((), (), str), "east")
