"""Groups whose names sort below `*`, such as a placeholder that nobody replaced, behind a fence on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kafka_dr.vocabulary import Step

from tests.support.staged_lab import Stage, acl

REFUSED, TOPIC = "GROUP_AUTHORIZATION_FAILED", "orders"
#: Names that share one character, names that share more, and one beside them.
GROUPS = ("$GROUP", "${GROUP}", "${GROUP_ID}", "%app", "%app%", "orders")
#: More than a broker has request handlers (`num.io.threads`): each request that never ends takes one.
ASKED = 20


def test_the_broker_answers_for_every_group(fresh_lab: Callable[..., Path]) -> None:
    """KRaft's authorizer neither hangs nor fails: a fence, as many requests as it has handlers, and the return."""
    stage = Stage(fresh_lab("identity", airflow=False))
    stage.create({TOPIC: 1})
    stage.add_users("app")
    stage.allow(acl("User:app", "READ", "*", kind="GROUP"), acl("User:app", "READ", TOPIC))
    for group in GROUPS:
        assert stage.commit("admin", group, TOPIC, 0) == "ok"
    before = stage.acls()
    procedure = stage.fenced("names")
    assert set(stage.run(procedure, Step.DRAIN_CONSUMERS)["groups"]) >= set(GROUPS)
    for _ in range(ASKED):
        positions = procedure.systems.source.positions(GROUPS)
        assert [group for group in GROUPS if not positions[group]] == []
    assert {group: stage.commit("app", group, TOPIC, 0) for group in GROUPS} == dict.fromkeys(GROUPS, REFUSED)
    stage.give_back(procedure)
    assert stage.acls() == before
    assert {group: stage.commit("app", group, TOPIC, 0) for group in GROUPS} == dict.fromkeys(GROUPS, "ok")
