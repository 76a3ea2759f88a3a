"""What an installation lacks is named once each, with what to do."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from kafka_dr.domain.notices.notice import Event, Notice
from kafka_dr.domain.overview.setting_up import READINESS_DAG, Installation, tasks_of

COMPLETE = Installation({READINESS_DAG: False, "failback": False}, (), (), True, True, True, ("a", "b"), 2)
SILENT = Notice(
    "n", Event.RECORDER_SILENT, "a->b", datetime.now(UTC), "s", ("x has shown no sign of life ever.", "Do.")
)


def test_a_complete_installation_lacks_nothing() -> None:
    """Nor does one of whose DAGs nothing is known."""
    assert tasks_of(COMPLETE) == [] == tasks_of(replace(COMPLETE, paused={}))


@pytest.mark.parametrize(
    ("change", "lacking"),
    [
        ({"paused": {READINESS_DAG: True}}, "readiness_check is paused"),
        ({"paused": {READINESS_DAG: None}}, "Airflow does not know the DAG readiness_check"),
        ({"paused": {"failback": True, "planned_failover": True}}, "Paused: planned_failover, failback"),
        ({"paused": {"failback": None}}, "Airflow does not know the DAG failback"),
        ({"unchecked": ["a->b"]}, "No check has ended yet of a->b"),
        ({"silent": [SILENT, replace(SILENT, flow="b->a")]}, "x has shown no sign of life ever"),
        ({"recorder": False}, "The topology names no recorder"),
        ({"undecided": ["a->b"]}, "No offset option is recorded of a->b"),
        ({"notified": False}, "Nobody is notified"),
        ({"approvers": False}, "The topology names no approvers"),
        ({"drills": ()}, "No Connect workers for drills"),
        ({"drills": ("a",)}, "A cluster has no Connect worker for drills"),
    ],
)
def test_each_lack_has_its_sentence(change: dict[str, Any], lacking: str) -> None:
    """Exactly one, which says what to do."""
    (task,) = tasks_of(replace(COMPLETE, **change))
    assert task.lacking == lacking and task.todo.endswith(".")


def test_while_checks_are_paused_no_document_is_asked_for() -> None:
    """The document comes once the DAG runs."""
    found = tasks_of(replace(COMPLETE, paused={READINESS_DAG: True}, unchecked=["a->b"]))
    assert [task.lacking for task in found] == ["readiness_check is paused"]
