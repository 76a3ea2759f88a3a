"""What a change does to the lists of a flow, and which patterns are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.mirror_maker.naming import NamingSpec, naming_of
from kafka_dr.domain.mirror_maker.patterns import TOPICS_EXCLUDE, group_filter_of, topic_filter_of
from kafka_dr.domain.replication.flow_change import (
    RequestedChange,
    changed_config,
    effect_of,
    is_internal_topic,
    problems_of,
    with_changes,
)
from kafka_dr.domain.replication.tuning import ConnectorKind, settings_for, tuning_problems

SOURCE, CHECKPOINT = ConnectorKind.SOURCE, ConnectorKind.CHECKPOINT
NAMES = ("orders", "orders.eu", "orders1", "payments", "connect-offsets", "__consumer_offsets", "heartbeats")
PATTERNS = st.sampled_from(["orders", "orders.*", r"orders\..*", "payments", ".*", "p.*,orders1", "none"])


def changed(config: dict[str, str], kind: ConnectorKind = SOURCE, version: str = "4.3.1", **choices: Any) -> Any:
    """Return the settings that change."""
    return changed_config(RequestedChange.of(choices), kind, config, version)


@pytest.mark.parametrize(
    ("config", "choices", "settings"),
    [
        ({"topics": "orders"}, {"add_topics": "payments"}, {"topics": "orders,payments"}),
        ({"topics": "orders"}, {"add_topics": "orders"}, {}),
        ({"topics": ".*"}, {"add_topics": "payments"}, {}),
        ({}, {"add_topics": "payments"}, {}),
        ({"topics": ".*", "topics.exclude": "a, b"}, {"add_topics": "b"}, {"topics.exclude": "a"}),
        ({"topics": ".*", "topics.exclude": "a"}, {"remove_topics": "b.*"}, {"topics.exclude": "a,b.*"}),
        ({"topics": ".*", "topics.blacklist": "a"}, {"remove_topics": "b"}, {"topics.blacklist": "a,b"}),
        (
            {"topics": ".*"},
            {"remove_topics": "b"},
            {"topics.exclude": ",".join([*TOPICS_EXCLUDE.split(", "), "b"])},
        ),
        ({"topics": "a,b", "topics.exclude": "c"}, {"remove_topics": "b"}, {"topics": "a", "topics.exclude": "c,b"}),
        ({"topics": "b", "topics.exclude": "c"}, {"remove_topics": "b"}, {"topics.exclude": "c,b"}),
        (
            {"topics": "a"},
            {"settings": {"tasks.max": "4", "emit.checkpoints.interval.seconds": "5"}},
            {"tasks.max": "4"},
        ),
        ({"tasks.max": "4"}, {"settings": {"tasks.max": "4"}}, {}),
        ({"tasks.max": "4"}, {"settings": {"tasks.max": ""}}, {"tasks.max": None}),
        ({"topics": "a"}, {"add_groups": "g"}, {}),
    ],
)
def test_settings_of_a_source_connector(config: dict[str, str], choices: Any, settings: Any) -> None:
    """Only what differs changes; excluded names keep their other expressions."""
    assert changed(config, **choices) == settings


def test_a_checkpoint_connector_has_groups_and_topics() -> None:
    """It emits checkpoints of topics that it selects itself, and takes intervals of its own."""
    config = {"groups": "a", "groups.exclude": "b", "topics.exclude": "x"}
    found = changed(
        config,
        CHECKPOINT,
        add_groups="g.*",
        remove_topics="t",
        settings={"tasks.max": "2", "emit.checkpoints.interval.seconds": "5"},
    )
    assert found == {"groups": "a,g.*", "topics.exclude": "x,t", "emit.checkpoints.interval.seconds": "5"}


def test_the_default_of_an_older_worker_stays_in_force() -> None:
    """A list that is written replaces the default, which named internal topics before 4.0."""
    found = changed({}, version="3.7.2", remove_topics="t")["topics.exclude"]
    assert found == r".*[\-\.]internal,.*\.replica,__.*,t"


@given(PATTERNS, st.sampled_from(["orders", ".*", "payments,orders.*"]), st.sampled_from(["", "pay.*", r"orders\..*"]))
def test_removed_names_are_never_mirrored_and_added_again_they_are(pattern: str, topics: str, exclude: str) -> None:
    """Of any name that exists, or comes later: exactly the matching names leave, and adding the pattern undoes it."""
    before = {"topics": topics, **({"topics.exclude": exclude} if exclude else {})}
    without = with_changes(before, changed(before, remove_topics=pattern))
    again = with_changes(without, changed(without, add_topics=pattern))
    # Topics of heartbeats are mirrored whatever the lists say.
    for name in NAMES[:-1]:
        is_matched = any(re.fullmatch(one, name) for one in pattern.split(","))
        was, now, later = (topic_filter_of(config).selects(name) for config in (before, without, again))
        assert now == (was and not is_matched)
        assert later >= was


@given(PATTERNS)
def test_groups_likewise(pattern: str) -> None:
    """Groups have lists of their own."""
    config = {"groups": ".*"}
    without = with_changes(config, changed(config, CHECKPOINT, remove_groups=pattern))
    selects = group_filter_of(without).selects
    assert not [name for name in NAMES if any(re.fullmatch(one, name) for one in pattern.split(",")) and selects(name)]


def effect(pattern: str, is_added: bool, before: set[str], after: set[str]) -> Any:
    """Return what a pattern does to NAMES on the source, and to two of them on the target."""
    naming = naming_of(NamingSpec("identity"), ("primary", "standby"))
    internal = [name for name in NAMES if is_internal_topic(naming, name)]
    names = {"primary": NAMES, "standby": ("orders", "__consumer_offsets")}
    return effect_of(pattern, is_added, "topic", names, (before, after), internal)


def test_internal_topics_are_recognised() -> None:
    """Kafka's, Connect's, MirrorMaker 2's and Switchback's own."""
    naming = naming_of(NamingSpec("identity"), ("primary", "standby"))
    internal = ["__consumer_offsets", "connect-status", "my-connect.offset", "mm2-offset-syncs.standby.internal"]
    internal += ["primary.checkpoints.internal", "heartbeats", "primary.heartbeats", "switchback-canary.replica"]
    assert [name for name in internal if not is_internal_topic(naming, name)] == []
    assert [name for name in ("orders", "offsets", "reconnects", "connect") if is_internal_topic(naming, name)] == []


@pytest.mark.parametrize(
    ("pattern", "is_added", "before", "after", "told"),
    [
        ("orders.*", True, set(), {"orders", "orders.eu", "orders1"}, None),
        (
            "orders.",
            True,
            set(),
            {"orders1"},
            r"ends with a dot.*would match on the source: orders, orders.eu, orders1",
        ),
        ("orders.", False, {"orders1"}, set(), "ends with a dot"),
        (
            "order",
            True,
            set(),
            set(),
            r"changes nothing.*on primary it matches nothing.*begin like it: orders, orders.eu",
        ),
        (".*offsets", True, set(), {"connect-offsets"}, "catches internal topics: __consumer_offsets, connect-offsets"),
        ("__consumer_offsets", True, set(), set(), "catches internal topics: __consumer_offsets"),
        (".*", True, set(), {"orders"}, "these stay excluded by another expression: orders.eu, orders1, payments"),
        ("payments", False, set(), set(), "changes nothing for the topics that exist"),
    ],
)
def test_wrong_patterns(pattern: str, is_added: bool, before: set[str], after: set[str], told: str | None) -> None:
    """Each is refused with what it would match."""
    problems = list(problems_of(effect(pattern, is_added, before, after), names_to_come=False))
    assert bool(problems) == (told is not None)
    assert told is None or re.search(told, problems[0])


def test_a_pattern_for_later_names_is_taken_on_purpose() -> None:
    """But never one that catches internal topics."""
    assert list(problems_of(effect("later", True, set(), set()), names_to_come=True)) == []
    assert list(problems_of(effect("connect-.*", True, set(), set()), names_to_come=True)) != []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"tasks.max": "0"}, "expected a whole number from 1"),
        ({"tasks.max": "many"}, "tasks.max: 'many'"),
        ({"producer.batch.size": "1"}, "write producer.override.batch.size"),
        ({"producer.override.acks": "0"}, "this procedure does not change it"),
        ({"sync.group.offsets.enabled": "true"}, "this procedure does not change it"),
        ({"producer.override.compression.type": "fast"}, "one of none, gzip"),
        ({"offset-syncs.topic.location": "target", "source.consumer.fetch.min.bytes": "5", "offset.lag.max": ""}, None),
    ],
)
def test_settings_that_are_taken(settings: dict[str, str], told: str | None) -> None:
    """By name and by value."""
    problems = list(tuning_problems(settings))
    assert (problems == []) if told is None else told in problems[0]


def test_settings_go_to_the_connectors_that_have_them() -> None:
    """A setting of both goes to both; an empty value removes it."""
    settings = {"offset-syncs.topic.location": "target", "tasks.max": "", "refresh.groups.interval.seconds": "5"}
    assert settings_for(SOURCE, settings) == {"offset-syncs.topic.location": "target", "tasks.max": None}
    assert settings_for(CHECKPOINT, settings) == {
        "offset-syncs.topic.location": "target",
        "refresh.groups.interval.seconds": "5",
    }
