"""Names of mirrored topics, both ways, under every policy."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kafka_dr.domain.mirror_maker.naming import HEARTBEATS, NamingSpec, naming_of, naming_problems, topic_problem
from kafka_dr.errors import BadInput

from tests.support.examples import yes_and_no

TEMPLATE = "replicated-<source>-<topic>"
ALIASES = ("primary", "standby", "region-us", "region-eu")

names = st.text(alphabet="ab.-_1", min_size=1, max_size=12).filter(lambda name: topic_problem(name) is None)
aliases = st.from_regex(r"[a-z][a-z0-9-]{0,6}", fullmatch=True)
topics = st.one_of(names, st.just(HEARTBEATS), names.map(lambda name: f"{name}-{HEARTBEATS}"))


@pytest.mark.parametrize(
    ("source", "topic", "remote"),
    [
        ("east", "orders", "east.orders"),
        ("west", "events", "west.events"),
        ("prod", "user.activity", "prod.user.activity"),
        ("region-us", "events", "region-us.events"),
        ("east", HEARTBEATS, "east.heartbeats"),
        ("east", "west.orders", "east.west.orders"),
    ],
)
def test_default_names_go_both_ways(source: str, topic: str, remote: str) -> None:
    """The default policy prefixes the source alias and takes it off again, dots and hyphens included."""
    naming = naming_of(NamingSpec("default"), ("east", "west", "prod", "region-us"))
    assert naming.remote(source, topic) == remote
    assert (naming.source_alias(remote), naming.upstream(remote)) == (source, topic)


@pytest.mark.parametrize(
    "topic", ["ho.orders-eu.v1", "orders", "primary", "primary.", "primary...", "primaryorders", "orders.primary.v1"]
)
def test_only_known_aliases_are_sources(topic: str) -> None:
    """A name whose prefix is no alias of the topology, or that has nothing after it, is an ordinary topic."""
    naming = naming_of(NamingSpec("default"), ALIASES)
    assert (naming.source_alias(topic), naming.upstream(topic), naming.original(topic)) == (None, None, topic)


def test_longest_alias_wins() -> None:
    """Of two known aliases that both fit a default name, the longer one is the source."""
    naming = naming_of(NamingSpec("default", separator="-"), ("region", "region-us"))
    assert (naming.source_alias("region-us-orders"), naming.upstream("region-us-orders")) == ("region-us", "orders")
    assert naming.source_alias("region-eu-orders") == "region"


@given(
    topic=topics,
    separator=st.sampled_from([".", "_", "__", "-x-"]),
    known=st.sets(aliases, min_size=1, max_size=4),
    data=st.data(),
)
def test_default_round_trip(topic: str, separator: str, known: set[str], data: st.DataObject) -> None:
    """Whatever the separator, a mirrored name gives back its alias and topic."""
    assume(not any(separator in alias for alias in known) and topic.replace(separator, ""))
    naming, source = naming_of(NamingSpec("default", separator), known), data.draw(st.sampled_from(sorted(known)))
    remote = naming.remote(source, topic)
    assert (naming.source_alias(remote), naming.upstream(remote)) == (source, topic)


@given(topic=topics, known=st.sets(aliases, min_size=1, max_size=4), data=st.data())
def test_identity_round_trip(topic: str, known: set[str], data: st.DataObject) -> None:
    """Under identity naming the upstream name of a mirrored topic is the topic, renamed heartbeats included."""
    naming, source = naming_of(NamingSpec("identity"), known), data.draw(st.sampled_from(sorted(known)))
    assert naming.upstream(naming.remote(source, topic)) == topic


@given(
    topic=topics,
    template=st.sampled_from([TEMPLATE, "<topic>_from_<source>", "<source><topic>", "dr.<topic>.<source>.copy"]),
    known=st.sets(aliases, min_size=1, max_size=4),
    data=st.data(),
)
def test_template_round_trip(topic: str, template: str, known: set[str], data: st.DataObject) -> None:
    """A template that is accepted for a set of aliases gives back alias and topic of every name it makes."""
    spec = NamingSpec("template", template=template)
    assume(not naming_problems(spec, known))
    naming, source = naming_of(spec, known), data.draw(st.sampled_from(sorted(known)))
    remote = naming.remote(source, topic)
    assert (naming.source_alias(remote), naming.upstream(remote)) == (source, topic)


@given(
    one=aliases,
    other=aliases,
    topics=st.tuples(names, names),
    template=st.sampled_from([TEMPLATE, "<topic>-<source>", "<source><topic>"]),
)
def test_accepted_templates_never_collide(one: str, other: str, topics: tuple[str, str], template: str) -> None:
    """No two topics of two aliases get the same name under a template that is accepted for both."""
    spec = NamingSpec("template", template=template)
    assume(one != other and not naming_problems(spec, (one, other)))
    naming = naming_of(spec, (one, other))
    assert naming.remote(one, topics[0]) != naming.remote(other, topics[1])


@pytest.mark.parametrize(
    ("template", "readings"),
    [
        (TEMPLATE, ("'replicated-eu-west-orders'", "'orders' of 'eu-west'", "'west-orders' of 'eu'")),
        ("<topic>-<source>", None),
        ("<topic>.<source>", None),
    ],
)
def test_ambiguous_template_is_refused_with_both_readings(template: str, readings: tuple[str, ...] | None) -> None:
    """A template whose names have two readings for the known aliases is refused, and both readings are named."""
    spec = NamingSpec("template", template=template)
    if readings is None:
        assert naming_of(spec, ("eu", "eu-west")).remote("eu", "orders")
        return
    with pytest.raises(BadInput) as error:
        naming_of(spec, ("eu", "eu-west"))
    assert all(reading in str(error.value) for reading in readings)


def test_template_ending_in_the_alias_is_ambiguous_backwards() -> None:
    """With the topic first, an alias that ends another one makes the template ambiguous."""
    with pytest.raises(BadInput, match="'west-eu'"):
        naming_of(NamingSpec("template", template="<topic>-<source>"), ("eu", "west-eu"))


@pytest.mark.parametrize(
    "spec",
    [
        NamingSpec("template"),
        NamingSpec("default", template=TEMPLATE),
        NamingSpec("template", template="x-<topic>"),
        NamingSpec("default", separator=""),
        NamingSpec("template", template="<source>-<source>-<topic>"),
        NamingSpec("template", template="<source>/<topic>"),
        NamingSpec("default", separator="é"),
    ],
)
def test_unusable_policies_are_refused(spec: NamingSpec) -> None:
    """A policy without what it needs, or with characters no topic can have, is refused."""
    with pytest.raises(BadInput):
        naming_of(spec, ALIASES)


def test_identity_renames_whatever_ends_with_heartbeats() -> None:
    """MirrorMaker 2's identity policy renames a user's `device-heartbeats` as the default policy would."""
    naming = naming_of(NamingSpec("identity"), ALIASES)
    assert naming.remote("primary", "device-heartbeats") == "primary.device-heartbeats"
    assert naming.source_alias("primary.device-heartbeats") == "primary"
    assert naming.upstream("device-heartbeats") is None
    assert (naming.remote("primary", "orders"), naming.source_alias("primary.orders")) == ("orders", None)


@pytest.mark.parametrize(
    ("topic", "expected"),
    yes_and_no(
        "heartbeats source1.heartbeats source2.source1.heartbeats",
        "heartbeats! !heartbeats source1heartbeats source1-heartbeats",
    ),
)
def test_heartbeats_are_told_as_mirror_maker_tells_them(topic: str, expected: bool) -> None:
    """A heartbeats topic is one whose original name is exactly `heartbeats`, under both of MirrorMaker 2's policies."""
    assert all(
        naming_of(NamingSpec(policy), ALIASES).is_heartbeats(topic) is expected for policy in ("default", "identity")
    )


@pytest.mark.parametrize(
    ("separator", "internal", "syncs", "checkpoints"),
    [
        (".", True, "mm2-offset-syncs.primary.internal", "primary.checkpoints.internal"),
        ("__", True, "mm2-offset-syncs__primary__internal", "primary__checkpoints__internal"),
        ("__", False, "mm2-offset-syncs.primary.internal", "primary.checkpoints.internal"),
    ],
)
@pytest.mark.parametrize("policy", ["identity", "default"])
def test_internal_topics(policy: str, separator: str, internal: bool, syncs: str, checkpoints: str) -> None:
    """Internal topics carry the separator unless configured otherwise, and are known as internal."""
    naming = naming_of(NamingSpec(policy, separator, internal), ALIASES)
    found = (naming.offset_syncs_topic("primary"), naming.checkpoints_topic("primary"), naming.heartbeats_topic)
    assert found == (syncs, checkpoints, "heartbeats")
    assert naming.is_internal(syncs) and naming.is_internal(checkpoints) and naming.is_checkpoints(checkpoints)


@pytest.mark.parametrize(
    ("topic", "expected"),
    yes_and_no("__consumer_offsets .hidden mm2-configs.primary.internal", "mm2-orders my-app.internal orders"),
)
def test_internal_as_of_4_0(topic: str, expected: bool) -> None:
    """Since 4.0 a topic that merely ends in `.internal` is mirrored; Kafka's and MirrorMaker 2's own are not."""
    assert naming_of(NamingSpec("default"), ALIASES).is_internal(topic) is expected


def test_template_policy_keeps_older_rule_for_internal() -> None:
    """A policy class of one's own calls everything that ends in `.internal` internal, as the usual example does."""
    naming = naming_of(NamingSpec("template", template=TEMPLATE), ("primary", "standby"))
    assert naming.is_internal("my-app.internal") and naming.is_internal("__x") and not naming.is_internal("orders")
    assert naming.is_heartbeats("replicated-primary-heartbeats") and not naming.is_heartbeats("other-heartbeats")


@pytest.mark.parametrize(
    ("topic", "expected"),
    yes_and_no(
        "target.topic1 target.source.topic1 source.target.topic1 unknown.target.topic1",
        "source.topic1 othersource.topic1 target",
    ),
)
def test_cycles_are_seen_at_any_hop(topic: str, expected: bool) -> None:
    """Under default naming a topic that came from the target, at any hop, is not mirrored back to it."""
    assert naming_of(NamingSpec("default"), ("source", "target")).is_cycle(topic, "target") is expected


def test_identity_protects_only_heartbeats_from_loops() -> None:
    """Under identity naming only renamed heartbeats are kept from going round."""
    naming = naming_of(NamingSpec("identity"), ("source", "target"))
    assert naming.is_cycle("target.heartbeats", "target") and not naming.is_cycle("target.orders", "target")


def test_original_follows_all_hops() -> None:
    """The original name is found through any number of hops."""
    naming = naming_of(NamingSpec("default"), ("a", "b", "c"))
    assert naming.original("a.b.c.orders") == "orders"


def test_unknown_alias_is_refused() -> None:
    """Asking for a name with an alias that the topology does not know is an error, not a new name."""
    naming = naming_of(NamingSpec("default"), ALIASES)
    for ask in (
        lambda: naming.remote("primray", "orders"),
        lambda: naming.checkpoints_topic("x"),
        lambda: naming.offset_syncs_topic(""),
    ):
        with pytest.raises(BadInput, match="not a cluster"):
            ask()


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        *yes_and_no("a" * 249 + " ... A-b_c.9", "a" * 250 + " . .. a/b a\x00 оrders"),
        *((name, False) for name in ("", "a\n", "a b", "{{ x }}")),
    ],
)
def test_legal_topics(name: str, legal: bool) -> None:
    """Topic names are checked by Kafka's rule, look-alike letters included."""
    assert (topic_problem(name) is None) is legal
