"""The first lines of the evidence name what a reader must not believe."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.domain.evidence.evidence import evidence_of
from kafka_dr.domain.evidence.warnings import approved_through, warnings_of
from kafka_dr.vocabulary import Entry, Step

from tests.support.facts import entry


def approval(through: str | None, by: str = "bob") -> Any:
    """A gate's approval; `through` is absent in entries of earlier versions."""
    given = {"gate": "approve_failover", "by": by, "at": "2026-11-20T12:00:00+00:00", "digest": "d"}
    return entry(Step.APPROVE_FAILOVER, Entry.APPROVAL, **given, **({"through": through} if through else {}))


def begun(by_hand: str | None) -> Any:
    """The intent of open_target."""
    marked = {"by_hand": by_hand} if by_hand else {}
    return entry(Step.OPEN_TARGET, Entry.INTENT, removes_acl_entries=[], **marked)


@pytest.mark.parametrize(
    ("lines", "through", "warned"),
    [
        ([], None, ""),
        ([approval("airflow")], "airflow", ""),
        ([approval("airflow"), begun(None)], "airflow", ""),
        ([approval(None)], None, ""),
        ([approval(None), approval("airflow")], None, ""),
        ([approval("own_database"), approval("airflow")], "own_database", "could answer them under every name"),
        ([begun("mallory")], "by_hand", "gave the name mallory without any login; nobody approved this move"),
        ([approval("airflow"), begun("mallory")], "by_hand", "bob had approved before"),
    ],
)
def test_the_least_trustworthy_way_counts(lines: list[Any], through: str | None, warned: str) -> None:
    """An approval that everybody could have given stands out; an approval at the site's gates needs no word."""
    assert approved_through(lines) == through
    warnings = warnings_of(lines, "standby")
    assert (len(warnings), warned in "".join(warnings)) == (int(bool(warned)), True)


def test_the_warnings_come_before_the_outcome() -> None:
    """In the file as on the page: a reader meets them first."""
    request = {"dag_id": "planned_failover", "source": "primary", "target": "standby", "reason": "x"}
    bounds: dict[str, Any] = {"cut_off": [], "boundary": []}
    at = "2026-11-20T12:00:00+00:00"
    made = evidence_of("p-1", request, [], [], bounds, at, None)
    assert list(made).index("warnings") < list(made).index("outcome")
    assert (made["clusters"], made["topology_digest"], made["approved_through"]) == ({}, None, None)
