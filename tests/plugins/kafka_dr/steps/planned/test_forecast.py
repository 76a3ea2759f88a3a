"""The plan of a planned move says what the source's authorizer logs show."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.domain.clients import kinds
from kafka_dr.domain.readiness.plan import FailoverPlan
from kafka_dr.steps.planned import forecast
from kafka_dr.vocabulary import Step

from tests.plugins.kafka_dr.domain.readiness.test_readiness import cluster, seen
from tests.support.bench import Bench

REAL = Path(__file__).parents[4] / "fixtures" / "authorizer_logs" / "kafka-4.3.1.log"
NOTE = "by a right that no ACL entry gives"


@pytest.fixture
def plan(bench: Bench) -> Any:
    """Makes the plan of a run whose topology names this log of the source."""

    def make(log: str | None, **changes: Any) -> FailoverPlan:
        text = json.loads(bench.topology.read_text())
        text["clusters"]["primary"] |= {} if log is None else {"authorizer_logs": [log]}
        bench.topology.write_text(json.dumps(text))
        procedure = bench.opened()
        bench.done(procedure, Step.CHECK_READINESS, notes=["checked"])
        return forecast._build_plan(procedure, seen(source=replace(cluster("primary"), brokers=(1,)), **changes), ())

    return make


def real_lines() -> str:
    """Lines of a real broker, of today: an old log is one that nobody writes any more."""
    return REAL.read_text().replace("2026-11-28", f"{datetime.now(UTC):%Y-%m-%d}")


def kind_in(plan: FailoverPlan, kind: kinds.ClientKind) -> tuple[int | None, str]:
    """Number and fate of one kind in a plan."""
    return next((one.count, one.fate) for one in plan.clients if one.kind == kind.name)


def test_what_the_logs_show_stands_in_the_plan(plan: Any, bench: Bench) -> None:
    """Both kinds with their numbers, and the super user whom no fence stops among what cannot be proven."""
    log = bench.folder / "logs" / "authorizer.log"
    log.parent.mkdir()
    log.write_text(real_lines().replace("User:mm2 ", "User:flink "))
    made = plan("logs/authorizer.log")
    assert kind_in(made, kinds.WITHOUT_GROUP) == (1, kinds.LEFT)
    assert kind_in(made, kinds.WITHOUT_ENTRY)[1] == kinds.LEFT
    (note,) = [one for one in made.unproven if NOTE in one]
    assert "User:admin" in note and made.unproven[0] == "checked"


def test_a_fence_hook_stops_whom_no_entry_stops(plan: Any, bench: Bench) -> None:
    """The note is on the ACL entries alone."""
    log = bench.folder / "authorizer.log"
    log.write_text(real_lines())
    assert not [one for one in plan("authorizer.log", has_fence_hook=True).unproven if NOTE in one]


@pytest.mark.parametrize(
    ("log", "words"), [(None, "names no authorizer log"), ("missing.log", "missing.log cannot be")]
)
def test_without_logs_both_kinds_cannot_be_seen(plan: Any, log: str | None, words: str) -> None:
    """And the plan says why; a log that is not there stops no run."""
    made = plan(log)
    assert kind_in(made, kinds.WITHOUT_GROUP) == kind_in(made, kinds.WITHOUT_ENTRY) == (None, kinds.UNSEEN)
    assert all(words in one.happens for one in made.clients) and made.unproven == ("checked",)
