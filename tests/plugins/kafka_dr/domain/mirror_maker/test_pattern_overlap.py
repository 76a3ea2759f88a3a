"""Two filters select a common name, of a topic that exists or not, or none at all."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.mirror_maker.pattern_overlap import NameSet, common_name
from kafka_dr.domain.mirror_maker.patterns import pattern_list
from kafka_dr.errors import BadInput


def names(include: str, *excludes: str) -> NameSet:
    """Return the names of these lists."""
    return NameSet(pattern_list(include, "topic"), tuple(pattern_list(text, "topic") for text in excludes))


def accepted(text: str) -> bool:
    """Whether the text is a list of patterns; those that repeat too often are refused."""
    try:
        pattern_list(text, "topic")
    except BadInput:
        return False
    return True


#: Every name of up to four characters out of three.
SHORT = ["".join(letters) for length in range(1, 5) for letters in itertools.product("ab.", repeat=length)]
PIECES = st.sampled_from(["a", "b", r"\.", ".", "[ab]", "[^a]", "a*", "b+", "(?:ab)?", ".*", "a{2}", "b{1}", "(?:a|b)"])
PATTERNS = st.lists(PIECES, min_size=1, max_size=4).map("".join).filter(accepted)
LISTS = st.lists(PATTERNS, min_size=1, max_size=2).map(",".join)


@given(LISTS, st.lists(LISTS, max_size=1), LISTS, st.lists(LISTS, max_size=1))
def test_a_common_name_is_in_both_and_none_means_none(
    first: str, first_out: list[str], second: str, second_out: list[str]
) -> None:
    """By Python's own matching, of the name returned, and of every short name if none is returned."""
    one, other = names(first, *first_out), names(second, *second_out)
    found = common_name(one, other)
    if found is None:
        assert not [name for name in SHORT if one.holds(name) and other.holds(name)]
    else:
        assert one.holds(found) and other.holds(found)
        assert not [name for name in SHORT if len(name) < len(found) and one.holds(name) and other.holds(name)]


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        (names(".*"), names(".*"), "a"),
        (names("orders.*"), names("payments.*"), None),
        (names("orders.*"), names(".*", "orders.*"), None),
        (names("orders.*"), names(".*", "orders"), "ordersa"),
        (names(".*-eu"), names("orders.*"), "orders-eu"),
        (names("(?i)ORDERS"), names("orders"), "orders"),
        (names("[^a-z]+"), names("[A-Z]{3}"), "AAA"),
        (names("orders,^payments$"), names("payments"), "payments"),
        (names(""), names(".*"), None),
        (names(r"a\Q.b\E"), names("a.b"), "a.b"),
    ],
)
def test_examples(first: NameSet, second: NameSet, common: str | None) -> None:
    """The shortest common name, or none; names that only later topics may have count, too."""
    assert common_name(first, second) == common


@pytest.mark.parametrize("pattern", ["(?!a).*", "(?:a.{200}){200}", "(?:a$b)"])
def test_what_cannot_be_decided_is_refused(pattern: str) -> None:
    """Never taken for disjoint."""
    with pytest.raises(BadInput, match="cannot be shown that two lists of expressions select no common name"):
        common_name(names(pattern), names(".*"))


def test_a_name_of_the_longest_kind() -> None:
    """Counted repeats are followed to their end."""
    found = common_name(names("a{200}b"), names(".*b"))
    assert found is not None and re.fullmatch("a{200}b", found)
