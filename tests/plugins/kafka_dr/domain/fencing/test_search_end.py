"""A fence on groups whose names sort below `*` leaves KRaft's authorizer a search that ends."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from hypothesis import assume, given
from hypothesis import strategies as st
from kafka_dr.domain.fencing.fence import FenceScope, fence_changes
from kafka_dr.domain.kafka_model.acl import AclEntry, AclRules
from kafka_dr.domain.kafka_model.search_end import SEARCH_END, order_removals

from tests.support.examples import examples

MM2 = frozenset({"User:mm2"})
#: Names on both sides of `*`, as placeholders that nobody replaced leave them; none begins with `)`.
GROUPS = ("$GROUP", "${GROUP}", "${GROUP_ID}", "%app%", "%app2%", " orders", " o", "#1", "#", "orders", "-x", "*x")


def search_ends(entries: Iterable[AclEntry], asked: str) -> bool:
    """What KRaft's authorizer does behind the entries on `*`: it goes down the names, and jumps at a wrong one.

    It jumps to as many characters of `*` as the two names share: to the end at none, to `*` again at one, and to text
    that does not exist at more.
    """
    for name in sorted({e.name for e in entries if e.resource_type == "group" and e.name < "*"}, reverse=True):
        shared = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(asked, name, strict=False))))
        if shared < len(name):
            return shared == 0
    return True


def allow(principal: str, name: str, pattern: str = "literal") -> AclEntry:
    """An entry that gives READ on groups."""
    return AclEntry("group", name, pattern, principal, "*", "read", "allow")


GRANTS = st.frozensets(
    st.sampled_from([allow("User:app", "*"), allow("User:*", "*"), allow("User:app", "$", "prefixed")])
    | st.sampled_from(GROUPS).map(lambda name: allow("User:app", name)),
    max_size=4,
)


@examples(300)
@given(GRANTS, st.frozensets(st.sampled_from(GROUPS), min_size=1), st.booleans(), st.booleans())
def test_every_search_ends_while_entries_are_added_and_removed(
    grants: frozenset[AclEntry], groups: frozenset[str], everyone: bool, spared: bool
) -> None:
    """Entry by entry, in the order in which the brokers learn of each, and of each removal."""
    assume(all(search_ends(grants, group) for group in GROUPS))
    rules = AclRules(grants, frozenset(), everyone)
    added = fence_changes(rules, FenceScope.group_reads(groups), MM2 if spared else frozenset(), GROUPS).added
    for count in range(len(added) + 1):
        for entries in (grants | set(added[:count]), grants | set(order_removals(added)[count:])):
            assert [group for group in GROUPS if not search_ends(entries, group)] == [], (added, count)


def test_the_entry_refuses_nobody_and_is_added_for_such_groups_only() -> None:
    """Its principal is no client's; topics have no such names."""
    rules = AclRules(frozenset({allow("User:app", "*")}))
    with_end, without = (
        fence_changes(rules, FenceScope.group_reads([name]), MM2).added for name in ("$GROUP", "orders")
    )
    assert with_end[0] == SEARCH_END and SEARCH_END.principal not in ("User:*", "User:app")
    assert SEARCH_END not in without
    assert SEARCH_END not in fence_changes(rules, FenceScope.writes(["orders"]), MM2).added
