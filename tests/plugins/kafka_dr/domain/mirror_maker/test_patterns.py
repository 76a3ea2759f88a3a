"""Topic and group filters: Java's regular expressions, MirrorMaker 2's defaults, and patterns that never end."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.mirror_maker.naming import NamingSpec, naming_of
from kafka_dr.domain.mirror_maker.patterns import (
    ALL,
    LONGEST_LIST,
    group_filter_of,
    list_items,
    pattern_list,
    pattern_problem,
    topic_filter_of,
)
from kafka_dr.errors import BadInput

from tests.support.examples import yes_and_no

NAMING = naming_of(NamingSpec("default"), ("primary", "standby"))


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (".*", "orders", True),
        ("", "orders", False),
        ("orders, events ,users", "events", True),
        ("orders", "orders2", False),
        ("global-.*", "global-x", True),
        (r".*[\-\.]internal", "a.internal", True),
        (r".*[\-\.]internal", "axinternal", False),
        ("(orders,events)", "events", True),
        (r"\Qa.b\E.*", "a.bc", True),
        (r"\Qa.b\E.*", "axbc", False),
        ("(?i)ORD.*", "orders", True),
        ("(?!__).*", "__x", False),
        (r"\d{2}", "12", True),
        (r"\d", "٣", False),
        ("(?<n>a)b", "ab", True),
        ("a|b", "b", True),
        ("[^a]", "b", True),
        ("a*+b", "aab", True),
        (r"a\z", "a", True),
        ("[~&a|]+", "a|&~", True),
    ],
)
def test_matches_as_java_does(text: str, name: str, expected: bool) -> None:
    """A list matches whole names, in Java's reading of each construct."""
    assert pattern_list(text, "group").matches(name) is expected


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[a&&b]", "&&"),
        ("[a[b]]", "'['"),
        (r"\p{Alpha}", "escape"),
        (r"(a)\1", "escape"),
        ("a{,3}", "`{`"),
        ("x{1,3}", "comma"),
        ("a,(?i)b", "(?i)"),
        ("(?s)a", "(?i)"),
        ("(a", "parenthes"),
        ("[", "without a closing"),
        ("[]a]", "']'"),
        ("a,,b", "empty"),
        ("*a", "repeat"),
        ("\\", "backslash"),
        ("a\x00b", "control"),
        ("a\nb", "control"),
        ("a\u202eb", "control"),
        ("(?<=a*)b", "look-behind"),
        (r"a\b", "escape"),
        ("a" * (LONGEST_LIST + 1), "characters"),
        ("(" * 3000, "pattern"),
        ("(?P<a>x)", "look-around"),
    ],
)
def test_what_java_reads_otherwise_is_refused(text: str, word: str) -> None:
    """What Java refuses or reads otherwise than Python is refused with a text that says which construct."""
    problem = pattern_problem(text, "group")
    assert problem is not None and (word in problem or (word == "parenthes" and ")" in problem))


@pytest.mark.parametrize(
    "text",
    ["{{ conf.topics }}", "$( )", "../../etc/passwd", "'x'", "<b>", "=cmd", "оrders", "file://x", "10; drop", "a b"],
)
def test_characters_that_no_topic_has_are_refused(text: str) -> None:
    """A topic pattern with a literal that no topic name can hold would silently match nothing, so it is refused."""
    assert pattern_problem(text, "topic") is not None


@pytest.mark.parametrize(
    "text",
    [
        "(a+)+",
        "(a*)*b",
        "(.*a){12}",
        "(a|aa)+",
        "(a|a)*b",
        "a?" * 30,
        ".*a.*b.*c.*d.*e",
        "([a-z]+)*-",
        "(a+b?)+",
        "(.|a)*x",
        "(?:a|b|ab)*c",
        "(?=(a+)+b)a",
    ],
)
def test_patterns_that_may_never_end_are_refused(text: str) -> None:
    """Repeats within repeats, overlapping alternatives and long rows of repeats are refused."""
    assert "too long on some names" in (pattern_problem(text, "topic") or "")


@pytest.mark.parametrize(
    "text",
    [
        r".*\.orders\..*\.v.*\..*",
        "[a-z]+-[a-z]+-[a-z]+-[0-9]+",
        r"([a-z]+\.)*orders",
        "(dev|test|prod)-.*",
        "(eu|us)+x",
        ", ".join(f"topic-{i}" for i in range(500)),
    ],
)
def test_ordinary_patterns_are_accepted(text: str) -> None:
    """Patterns that people write for topics pass."""
    assert pattern_problem(text, "topic") is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (".*a.*b.*c", "ab" * 124),
        ("a+.*a*\\w+-", "a" * 249),
        ("[a-z]+-[a-z]+-[a-z]+-[0-9]+", "a-" * 124),
        (r"([a-z]+\.)*orders", "a." * 124),
    ],
)
def test_accepted_patterns_end_on_hostile_names(text: str, name: str) -> None:
    """What is accepted needs at most seconds on the worst name there can be."""
    began = time.process_time()
    assert pattern_list(text, "topic").matches(name) is False
    assert time.process_time() - began < 10


@given(st.text(alphabet=r"ab.*+?|()[]{}\^$,-&QEdp1<>=!i: ", max_size=14))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    """No text makes anything but a usable list or a stated problem."""
    if pattern_problem(text, "group") is None:
        pattern_list(text, "group").matches("abab")
    else:
        with pytest.raises(BadInput):
            pattern_list(text, "group")


def test_list_is_split_as_kafka_splits() -> None:
    """A list is split at every comma, blanks dropped; a blank text is an empty list."""
    assert (list_items(" a , b,c "), list_items("  "), list_items("a,")) == (("a", "b", "c"), (), ("a", ""))


@pytest.mark.parametrize(
    ("topic", "expected"),
    yes_and_no(
        "orders my-app.internal heartbeats primary.orders",
        "__consumer_offsets mm2-offset-syncs.primary.internal orders.replica standby.orders standby.heartbeats"
        " x.checkpoints.internal",
    ),
)
def test_defaults_of_4_x(topic: str, expected: bool) -> None:
    """Without settings a flow selects what MirrorMaker 2 4.x selects, loops and internal topics left out."""
    assert topic_filter_of({}, NAMING, "standby").selects(topic) is expected


@pytest.mark.parametrize("settings", [{}, {"topics.exclude": "payments"}])
@pytest.mark.parametrize(
    ("version", "mirrored"), [("3.9.2", False), ("7.9.1-ccs", False), ("4.0.0", True), ("8.0.0-ccs", True), ("", True)]
)
def test_a_worker_before_4_0_mirrors_less(version: str, mirrored: bool, settings: dict[str, str]) -> None:
    """Up to 3.9 what ends in `.internal` or `-internal` is internal, whatever is excluded; unknown is taken for 4.0."""
    selects = topic_filter_of(settings, NAMING, "standby", version)
    assert [selects(name) for name in ("my-app.internal", "my-app-internal", "orders")] == [mirrored, mirrored, True]


def test_heartbeats_pass_whatever_the_filter_says() -> None:
    """Heartbeats are mirrored beside a list that does not name them, unless their replication is switched off."""
    assert topic_filter_of({"topics": "orders"}, NAMING, "standby")("primary.heartbeats")
    off = topic_filter_of({"topics": "orders", "heartbeats.replication.enabled": "False"}, NAMING, "standby")
    assert not off("heartbeats") and off("orders")


def test_exclude_goes_before_include_and_older_names_count() -> None:
    """An excluded name is out though included, under the older key too; an empty exclude excludes nothing."""
    assert not topic_filter_of({"topics": ALL, "topics.blacklist": "orders"}, NAMING)("orders")
    assert topic_filter_of({"topics.exclude": ""}, NAMING)("orders.replica")


@pytest.mark.parametrize(
    ("group", "expected"),
    [("app", True), ("console-consumer-12", False), ("connect-x", False), ("__g", False), ("группа", True)],
)
def test_group_defaults(group: str, expected: bool) -> None:
    """Without settings groups of consoles and of Connect are left out; groups may have any letters."""
    assert group_filter_of({})(group) is expected
    assert group_filter_of({"groups": "x.*", "groups.exclude": "xy"})("xz")
