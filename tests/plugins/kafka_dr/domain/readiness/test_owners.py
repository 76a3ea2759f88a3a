"""Who puts connectors and ACL entries back: labels and markers, and for how long a marker must hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from kafka_dr.domain.readiness.owners import (
    MARKER_ENTRY,
    MarkerView,
    OwnerView,
    labels_in,
    labels_of_principals,
    owner_blockers,
    owner_notes,
)

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
HELD = MarkerView("ACL entry on primary", kept=True, now="", held_since=NOW - timedelta(seconds=241))
VIEW = OwnerView(markers=(HELD,), at=NOW)
LABELLED = replace(VIEW, labels=("config.providers of worker names Strimzi",))


def with_marker(**changes: object) -> OwnerView:
    """Return a view with one marker, changed."""
    return replace(VIEW, markers=(replace(HELD, **changes),))


def test_a_marker_that_held_for_two_periods_proves_it() -> None:
    """Nothing is refused, and nothing is left to say."""
    assert list(owner_blockers(VIEW)) == [] and list(owner_notes(VIEW)) == []


@pytest.mark.parametrize(
    ("view", "seen"),
    [
        (with_marker(now="deleted"), "the marker is deleted now"),
        (with_marker(now="resumed: RUNNING with 0 tasks"), "is resumed: RUNNING with 0 tasks now"),
        (
            with_marker(disturbance="deleted", held_since=NOW - timedelta(seconds=239)),
            "the marker was deleted, last at 2026-11-26 11:56:01 UTC; it has held for 3 min 59 s of 4 min 00 s",
        ),
    ],
)
def test_whoever_changes_a_marker_is_refused(view: OwnerView, seen: str) -> None:
    """Where, what, when, and what to do."""
    (blocker,) = owner_blockers(view)
    assert "ACL entry on primary" in blocker.reason and seen in blocker.seen
    assert "pause it" in blocker.next_step and "4 min 00 s" in blocker.next_step


@pytest.mark.parametrize(
    "view",
    [
        with_marker(kept=False),
        with_marker(now=None),
        with_marker(held_since=NOW - timedelta(seconds=239)),
    ],
)
def test_a_young_or_missing_marker_proves_nothing(view: OwnerView) -> None:
    """Nobody was seen, so nothing is refused; but the approver reads that it is not proven."""
    assert list(owner_blockers(view)) == []
    (note,) = owner_notes(view)
    assert "not proven" in note and "ACL entry on primary" in note


def test_long_ago_counts_no_more() -> None:
    """The owner was paused, and the marker has held since."""
    assert list(owner_blockers(with_marker(disturbance="deleted"))) == []


def test_the_period_is_the_topologys() -> None:
    """An owner that acts once an hour is waited for."""
    (note,) = owner_notes(replace(VIEW, reconcile_seconds=3600.0))
    assert "2 h 00 min" in note


def test_a_label_is_refused_until_it_is_acknowledged_and_markers_hold() -> None:
    """The word alone says nothing about whether the owner is paused."""
    young = replace(HELD, held_since=NOW)
    for view in (LABELLED, replace(LABELLED, acknowledged=True, markers=(young,))):
        (blocker,) = owner_blockers(view)
        assert "names Strimzi" in blocker.seen and "acknowledge_owner" in blocker.next_step
    acknowledged = replace(LABELLED, acknowledged=True)
    assert list(owner_blockers(acknowledged)) == []
    assert any("acknowledged" in note and "Strimzi" in note for note in owner_notes(acknowledged))


def test_labels_name_the_key_and_never_the_value() -> None:
    """A value may hold a secret."""
    settings = {
        "producer.sasl.jaas.config": "${file:/tmp/strimzi-mirrormaker2-connector.properties:password}",
        "x": "io.strimzi.kafka.EnvVarConfigProvider",
        "topics": ".*",
    }
    found = list(labels_in("connector c", settings))
    assert found == ["producer.sasl.jaas.config of connector c names Strimzi", "x of connector c names Strimzi"]
    assert list(labels_of_principals("primary", ["User:CN=a-kafka,O=io.strimzi", "User:app"])) == [
        "principal User:CN=a-kafka,O=io.strimzi of primary names Strimzi"
    ]


def test_the_marker_is_an_entry_on_a_name_of_its_own() -> None:
    """So it changes no answer about a name that anybody uses."""
    assert MARKER_ENTRY.pattern == "literal" and "switchback" in MARKER_ENTRY.name and "*" not in MARKER_ENTRY.name
