"""The state of a flow: nothing unknown, stale or changed since the drill is VERIFIED, and each says its name."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.readiness.drills import drill_findings
from kafka_dr.domain.readiness.fingerprint import Fingerprint, changes_since, fingerprint_of
from kafka_dr.domain.readiness.owners import MARKER_ENTRY
from kafka_dr.domain.readiness.readiness import find_blockers
from kafka_dr.domain.readiness.state import (
    Figure,
    Gravity,
    ReadinessFinding,
    State,
    findings_of,
    state_of,
    unknown_figures,
)
from kafka_dr.procedure.entries import DrillJudged

from tests.plugins.kafka_dr.domain.readiness.test_readiness import acl, seen, with_tasks
from tests.support.examples import examples

NOW = datetime(2026, 11, 27, 5, 0, tzinfo=UTC)
OLDEST = 300.0
OTHERS = {"product": "1", "primary.kafka": "400 broker settings", "standby.kafka": "400", "primary.ca": "a"}
TODAY = fingerprint_of(seen(), OTHERS)
DRILL = DrillJudged(
    source="primary",
    target="standby",
    drill_kind="canary",
    verdict="passed",
    fingerprint=TODAY.as_dict(),
    procedure_id="failover_drill-1",
    ended_at=(NOW - timedelta(days=10)).isoformat(),
)
FIGURES = st.builds(
    Figure,
    st.sampled_from(["lag", "heartbeat", "record_age"]),
    st.one_of(st.none(), st.floats(0, 1e9)),
    st.one_of(st.none(), st.floats(0, NOW.timestamp())),
)
FINDINGS = st.builds(ReadinessFinding, st.just("check"), st.sampled_from(Gravity), st.just(""), st.just("seen"))


def after_drill(
    drill: DrillJudged | None = DRILL, today: Fingerprint | None = TODAY, days: float = 92.0
) -> list[ReadinessFinding]:
    """What the drill says today."""
    return list(drill_findings(drill, today, days, NOW))


def test_a_passed_drill_under_what_is_in_place_is_verified() -> None:
    """Without any finding; a fingerprint that was written to the journal and read again is the same."""
    assert after_drill() == [] and state_of(after_drill()) is State.VERIFIED
    assert Fingerprint.from_dict(TODAY.as_dict()) == TODAY


@examples(300)
@given(st.lists(FIGURES, max_size=4), st.lists(FINDINGS, max_size=4))
def test_nothing_unknown_or_stale_is_verified(figures: list[Figure], findings: list[ReadinessFinding]) -> None:
    """Whatever else was found: one figure without a value or too old keeps a flow from VERIFIED, and a failure wins."""
    bad = [f for f in figures if f.value is None or f.at is None or NOW.timestamp() - f.at > OLDEST]
    state = state_of([*findings, *unknown_figures(figures, NOW.timestamp(), OLDEST)])
    severities = {finding.severity for finding in findings}
    assert (state is State.VERIFIED) == (not bad and severities <= {Gravity.WARNING})
    if Gravity.FAILED in severities:
        assert state is State.NOT_VERIFIED
    elif bad or Gravity.UNKNOWN in severities:
        assert state is State.UNKNOWN


@pytest.mark.parametrize("item", sorted(TODAY.voiding))
def test_each_voiding_item_alone_is_named(item: str) -> None:
    """With what it was and what it is; where it cannot be read today the state is UNKNOWN."""
    changed = replace(TODAY, voiding={**TODAY.voiding, item: "another"})
    found = after_drill(today=changed)
    assert state_of(found) is State.NEEDS_VERIFICATION
    assert [finding.about for finding in found] == [item]
    assert "now another" in found[0].text and str(TODAY.voiding[item] or "not known") in found[0].text
    gone = {name: value for name, value in TODAY.voiding.items() if name != item}
    assert [f.about for f in after_drill(today=replace(TODAY, voiding=gone))] == [item]
    unread = after_drill(today=replace(TODAY, voiding={**TODAY.voiding, item: None}))
    assert state_of(unread) is State.UNKNOWN and item in unread[0].text


def test_an_item_that_the_drill_could_not_read_voids_it() -> None:
    """Unknown then is no proof that nothing has changed."""
    then = replace(DRILL, fingerprint={**TODAY.as_dict(), "voiding": {**TODAY.voiding, "product": None}})
    assert state_of(after_drill(then)) is State.NEEDS_VERIFICATION


def test_more_topics_of_a_drilled_kind_void_nothing_and_a_new_kind_does() -> None:
    """Topics and ACL entries count by kind; numbers of topics, groups and brokers are informational."""
    observation = seen()
    more = {**observation.source.topics, "orders-2": next(iter(observation.source.topics.values()))}
    source = replace(observation.source, topics=more)
    scope = {**observation.scope, "orders-2": "orders-2"}
    assert after_drill(today=fingerprint_of(replace(observation, source=source, scope=scope), OTHERS)) == []
    compacted = replace(more["orders-2"], configs={"cleanup.policy": "compact"})
    source = replace(source, topics={**more, "orders-2": compacted})
    found = after_drill(today=fingerprint_of(replace(observation, source=source, scope=scope), OTHERS))
    assert [finding.about for finding in found] == ["topics cleanup.policy=compact message.timestamp.type=CreateTime"]
    rules = observation.source.rules.with_entries([acl("User:new", "alter", "orders"), MARKER_ENTRY])
    found = after_drill(
        today=fingerprint_of(replace(observation, source=replace(observation.source, rules=rules)), OTHERS)
    )
    assert [finding.about for finding in found] == ["acls allow alter topic literal"]


def test_a_connector_that_is_new_or_gone_is_one_item() -> None:
    """Named as the connector, instead of one item for each of its settings; the settings of others are compared."""
    flow = seen().flow
    second = replace(flow.source_connectors[0], name="second", config={"connector.class": "Source", "tasks.max": "2"})
    changed = replace(flow.source_connectors[0], config={**flow.source_connectors[0].config, "tasks.max": "77"})
    more = fingerprint_of(replace(seen(), flow=replace(flow, source_connectors=(changed, second))), OTHERS)
    item = f"{changed.name}.tasks.max"
    found = {finding.about: finding.text for finding in after_drill(today=more)}
    assert (
        found.keys() == {"second", item} and found["second"] == "connector second: at the last drill absent, now there"
    )
    gone = {finding.about: finding.text for finding in changes_since(more, TODAY)}
    assert gone.keys() == {"second", item} and gone["second"] == "connector second: at the last drill there, now absent"


def test_secrets_in_settings_of_connectors_are_not_kept() -> None:
    """Neither a password nor a digest from which it could be guessed; a renewed one voids no drill."""
    observation = seen()
    secret = {"source.cluster.sasl.jaas.config": 'x required password="hunter2";'}
    flow = observation.flow
    first = replace(flow.source_connectors[0], config={**flow.source_connectors[0].config, **secret})
    kept = fingerprint_of(replace(observation, flow=replace(flow, source_connectors=(first,))), OTHERS)
    without = replace(flow, source_connectors=flow.source_connectors[:1])
    assert "jaas" not in repr(kept) and kept == fingerprint_of(replace(observation, flow=without), OTHERS)


@pytest.mark.parametrize(
    ("drill", "finding", "state"),
    [
        (None, "drill_missing", State.NEEDS_VERIFICATION),
        (replace(DRILL, verdict="failed"), "drill_failed", State.NOT_VERIFIED),
        (replace(DRILL, verdict="conditional"), "drill_open", State.NEEDS_VERIFICATION),
        (replace(DRILL, findings_open=("f1",)), "drill_open", State.NEEDS_VERIFICATION),
        (replace(DRILL, ended_at=(NOW - timedelta(days=93)).isoformat()), "drill_due", State.NEEDS_VERIFICATION),
    ],
)
def test_only_a_passed_drill_within_its_period_counts(drill: DrillJudged, finding: str, state: State) -> None:
    """A missing, failed, conditional or old one is named."""
    found = after_drill(drill)
    assert [one.id for one in found] == [finding] and state_of(found) is state


def test_without_a_fingerprint_of_today_nothing_is_verified() -> None:
    """What could not be read may have changed."""
    assert state_of(after_drill(today=None)) is State.UNKNOWN


def test_a_failed_check_of_a_procedure_is_a_finding_here() -> None:
    """With the same name, what was seen and what to do."""
    found = list(findings_of(find_blockers(with_tasks("FAILED"))))
    assert [finding.id for finding in found] == ["connectors_run"] and "task" in found[0].text
    assert state_of(found) is State.NOT_VERIFIED
