"""Names of a drill: literal, and such that production's flows leave them alone by their defaults."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.drill.names import DrillNames, drill_naming, internal_topics, mirrored_topics
from kafka_dr.domain.mirror_maker.naming import NamingSpec
from kafka_dr.domain.mirror_maker.patterns import GROUPS_EXCLUDE, TOPICS_EXCLUDE
from kafka_dr.domain.own_names import OwnNames
from kafka_dr.errors import BadInput
from kafka_dr.vocabulary import CANARY_TOPIC, EXEMPT_CONNECTOR, EXEMPT_TOPIC, PROBE_TOPIC, PROGRESS_TOPIC

NAMES = DrillNames("failover_drill-r1")
ALIASES = ("primary", "standby")


def excluded(name: str, patterns: str) -> bool:
    """Whether MirrorMaker 2 leaves a name out by a list of patterns."""
    return any(re.fullmatch(pattern.strip(), name) for pattern in patterns.split(","))


def test_the_names_are_those_that_operators_are_told() -> None:
    """Ten hexadecimal digits of the id's SHA-256 stand in each of them."""
    assert NAMES.short == "d2179668a3"
    assert NAMES.topic("orders") == "switchback-drill.d2179668a3.orders.replica"
    assert NAMES.group("readers") == "__switchback-drill.d2179668a3.readers"
    assert NAMES.source_connector(*ALIASES) == "switchback-drill.d2179668a3.primary-standby.source"
    assert NAMES.checkpoint_connector(*ALIASES) == "switchback-drill.d2179668a3.primary-standby.checkpoint"
    assert NAMES.own.probe == "switchback-drill.d2179668a3.probe.replica"
    assert NAMES.own.canary == "switchback-drill.d2179668a3.canary.replica"
    assert NAMES.own.replay_id("primary+standby") == "__switchback-drill.d2179668a3.replay"


def test_production_keeps_its_names() -> None:
    """Without a drill nothing is called otherwise."""
    own = OwnNames()
    assert (own.probe, own.canary, own.progress) == (PROBE_TOPIC, CANARY_TOPIC, PROGRESS_TOPIC)
    assert (own.exempt_topic, own.exempt_connector) == (EXEMPT_TOPIC, EXEMPT_CONNECTOR)
    assert (PROBE_TOPIC, CANARY_TOPIC, PROGRESS_TOPIC, own.check) == (
        "__switchback_probe",
        "__switchback_canary",
        "__switchback_replayed",
        "__switchback_check",
    )
    assert own.replay_id("primary+standby") == "__switchback-replay-primary+standby"


@given(drill_id=st.text(min_size=1), name=st.from_regex(r"[a-z][a-z0-9-]{0,20}[a-z0-9]", fullmatch=True))
def test_production_mirrors_no_name_of_a_drill(drill_id: str, name: str) -> None:
    """MirrorMaker 2's own defaults exclude every topic and group, whatever the drill's id."""
    names = DrillNames(drill_id)
    own = (names.own.probe, names.own.canary, names.own.progress, names.own.exempt_topic)
    assert all(excluded(topic, TOPICS_EXCLUDE) for topic in (names.topic(name), *own))
    assert excluded(names.group(name), GROUPS_EXCLUDE)
    naming = drill_naming(NamingSpec("default"), ALIASES)
    assert all(excluded(topic, TOPICS_EXCLUDE) for topic in mirrored_topics(naming, ALIASES, [names.topic(name)]))


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_internal_topics_are_not_productions(policy: str) -> None:
    """The separator parts them, also where production's internal topics have a separator of their own."""
    spec = NamingSpec(policy, internal_topic_separator=False)  # type: ignore[arg-type]
    found = internal_topics(drill_naming(spec, ALIASES), ALIASES)
    assert found == {f"mm2-offset-syncs.switchback-drill.{alias}.switchback-drill.internal" for alias in ALIASES} | {
        f"{alias}.switchback-drill.checkpoints.switchback-drill.internal" for alias in ALIASES
    }


def test_mirrored_names_follow_the_policy() -> None:
    """Identity keeps names; the default policy puts alias and separator before them."""
    topic = NAMES.topic("orders")
    assert mirrored_topics(drill_naming(NamingSpec("identity"), ALIASES), ALIASES, [topic]) == {topic}
    assert mirrored_topics(drill_naming(NamingSpec("default"), ALIASES), ALIASES, [topic]) == {
        f"{alias}.switchback-drill.{topic}" for alias in ALIASES
    }


@pytest.mark.parametrize("name", ["", "*", "a.b", "a b", "-", "a-", ".*", "a\n", "ü"])
def test_a_short_name_is_plain(name: str) -> None:
    """No pattern, no part that would end or split the name."""
    for make in (NAMES.topic, NAMES.group, NAMES.transactional_id):
        with pytest.raises(BadInput):
            make(name)


def test_a_drill_has_an_id_and_its_names_fit_into_kafkas_limit() -> None:
    """Both are refused before anything is made."""
    with pytest.raises(BadInput):
        _ = DrillNames("").short
    aliases = ("a" * 100, "b" * 100)
    with pytest.raises(BadInput, match="cannot be mirrored"):
        mirrored_topics(drill_naming(NamingSpec("default"), aliases), aliases, [NAMES.topic("o" * 100)])
