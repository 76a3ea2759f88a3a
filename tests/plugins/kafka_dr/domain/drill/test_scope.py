"""What a scope may name, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.drill.names import DrillNames
from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.own_names import OwnNames
from kafka_dr.errors import BadInput, OutsideDrill

from tests.support.drills.scopes import DRILL_ID, FOREIGN, NAMES, ORDERS, PRODUCTIONS, READERS, SOURCE, scope

FIELDS = ("topics", "groups", "connectors", "transactional_ids")


def test_a_scope_names_all_that_the_drill_makes() -> None:
    """Clients' topics and their mirrored names, Switchback's own, internal ones, groups, connectors, ids."""
    made = scope("default")
    for topic in (ORDERS, f"primary.switchback-drill.{ORDERS}", NAMES.own.probe, NAMES.own.exempt_topic):
        made.require_topic(topic, "creating it")
    made.require_topic("mm2-offset-syncs.switchback-drill.standby.switchback-drill.internal", "deleting it")
    made.require_group(READERS, "committing")
    for connector in (SOURCE, NAMES.checkpoint_connector("standby", "primary"), NAMES.own.exempt_connector):
        made.require_connector(connector, "stopping it")
    made.require_transactional_id(NAMES.own.replay_id("any"), "writing")
    made.require_resource("topic", ORDERS, "literal", "adding an ACL entry")


@pytest.mark.parametrize("name", FOREIGN)
def test_any_other_name_is_refused(name: str) -> None:
    """Also a part or an extension of the drill's names, or another drill's."""
    made = scope()
    for require in (
        made.require_topic,
        made.require_group,
        made.require_connector,
        made.require_transactional_id,
        lambda name, call: made.require_resource("topic", name, "literal", call),
    ):
        with pytest.raises(OutsideDrill):
            require(name, "changing it")


def test_a_refusal_names_the_name_the_call_and_what_to_do() -> None:
    """So that an operator who meets it knows that production is unchanged."""
    with pytest.raises(OutsideDrill) as refused:
        scope().require_topic("orders", "deleting a topic")
    assert "deleting a topic" in refused.value.reason and "topic 'orders'" in refused.value.reason
    assert NAMES.short in refused.value.seen and "No request was sent" in refused.value.next_step


@pytest.mark.parametrize(
    ("kind", "name", "pattern"),
    [
        ("topic", ORDERS, "prefixed"),
        ("topic", ORDERS, "match"),
        ("topic", None, "literal"),
        ("topic", "*", "literal"),
        ("group", ORDERS, "literal"),
        ("cluster", "kafka-cluster", "literal"),
        ("broker", "kafka-cluster", "literal"),
        ("any", ORDERS, "literal"),
        ("user", "User:app", "literal"),
    ],
)
def test_an_acl_entry_is_literal_and_on_what_the_drill_has(kind: str, name: str | None, pattern: str) -> None:
    """A prefix or the cluster would cover production, too."""
    with pytest.raises(OutsideDrill):
        scope().require_resource(kind, name, pattern, "adding an ACL entry")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    "name", [*PRODUCTIONS, None, 7, "o" * 250, f"{ORDERS}\n", f"{ORDERS}*", f"__{DrillNames('x').short}.readers"]
)
def test_no_scope_can_name_what_may_be_productions(field: str, name: Any) -> None:
    """A wildcard, a prefix, an empty name, or one without the drill's short id, in any field."""
    with pytest.raises(BadInput):
        DrillScope(DRILL_ID, NAMES.own, **{field: frozenset({name})})


@given(name=st.text(max_size=40), field=st.sampled_from(FIELDS))
def test_no_other_text_comes_into_a_scope(name: str, field: str) -> None:
    """Whatever does not carry the short id is refused."""
    with pytest.raises(BadInput):
        replace(scope(), **{field: frozenset({name})})


def test_a_text_in_place_of_a_set_of_names_is_refused() -> None:
    """Its letters would be names."""
    with pytest.raises(BadInput):
        DrillScope(DRILL_ID, NAMES.own, topics=ORDERS)  # type: ignore[arg-type]


def test_own_names_are_those_of_the_drill() -> None:
    """Neither production's nor another drill's come into a scope."""
    for own in (OwnNames(), DrillNames("failover_drill-other").own, replace(NAMES.own, replay=None)):
        with pytest.raises(BadInput):
            DrillScope(DRILL_ID, own)
    with pytest.raises(BadInput):
        DrillScope("", NAMES.own)


@pytest.mark.parametrize(
    "folder",
    ["evidence/x", "/", "/evidence", f"/evidence/{DRILL_ID}/../x", f"{DRILL_ID}/private", f"/evidence/{DRILL_ID}x"],
)
def test_a_routing_folder_is_the_drills(folder: str) -> None:
    """An absolute path with the drill's id, without a way out."""
    with pytest.raises(BadInput):
        replace(scope(), routing_folder=folder)


def test_a_routing_record_lies_in_the_folder() -> None:
    """Not beside it, and not in a folder whose name only begins alike; a drill without a folder has no record."""
    folder = f"/evidence/{DRILL_ID}/private"
    made = replace(scope(), routing_folder=folder)
    made.require_routing_file(f"{folder}/routing.json", folder)
    for path in (f"{folder}2/routing.json", "/evidence/routing.json", folder):
        with pytest.raises(OutsideDrill):
            made.require_routing_file(path, folder)
    with pytest.raises(OutsideDrill):
        scope().require_routing_file("/routing.json", "")


@pytest.mark.parametrize(
    ("principal", "kind", "name", "pattern", "shown"),
    [
        ("User:producer", "topic", "*", "literal", False),
        ("User:orders-app", "topic", "orders.", "prefixed", False),
        ("User:*", "topic", "*", "literal", False),
        ("User:producer", "topic", "switchback-drill.", "prefixed", False),
        ("User:producer", "cluster", "kafka-cluster", "literal", False),
        ("User:switchback-drill", "topic", "switchback-drill.", "prefixed", True),
        ("User:mm2", "topic", "*", "literal", True),
        ("User:producer", "topic", ORDERS, "literal", True),
        ("User:producer", "group", READERS, "literal", True),
        ("User:producer", "group", ORDERS, "literal", False),
    ],
)
def test_a_drill_sees_no_right_of_productions_clients(
    principal: str, kind: str, name: str, pattern: str, shown: bool
) -> None:
    """What it does not see it neither fences nor opens: not even a standing fence whose pattern covers its topics."""
    made = replace(scope(), principals=frozenset({"User:switchback-drill", "User:mm2"}))
    assert made.shows_entry(AclEntry(kind, name, pattern, principal, "*", "write", "deny")) is shown
