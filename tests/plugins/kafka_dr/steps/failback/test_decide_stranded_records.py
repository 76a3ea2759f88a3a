"""The decision on stranded records: asked where something is at stake, bound to what was found, and never
guessed.
"""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput
from kafka_dr.actions.failback.stranded_decision import planned_return, require_decided
from kafka_dr.errors import ApprovalMissing, BadInput, Refusal
from kafka_dr.steps.failback.decide_stranded_records import DecideStrandedRecords
from kafka_dr.vocabulary import Step

from tests.support.facts import stranded_topic

GATE = Step.DECIDE_STRANDED_RECORDS
ORDERS = stranded_topic("orders", records=3, bytes=30, first_at=1, last_at=2)


@pytest.fixture
def found(make_bench: Any) -> Any:
    """Makes the bench of a failback that has looked for stranded records."""

    def make(*rows: dict[str, Any], **choices: Any) -> Any:
        bench = make_bench(dag_id="failback")
        bench.params |= choices
        bench.done(
            bench.opened(),
            Step.FIND_STRANDED_RECORDS,
            digest="f" * 64,
            topics=list(rows),
            compacted=[],
            bytes_there=500,
        )
        return bench

    return make


def gate() -> DecideStrandedRecords:
    """The gate, made anew as Airflow does for each try."""
    return DecideStrandedRecords(task_id=GATE.value)


def test_nothing_stranded_asks_nobody(found: Any, asked: list[dict[str, Any]]) -> None:
    """The gate opens by itself, and what follows needs no approval."""
    bench = found()
    assert gate().execute(bench.context()) == {"done": GATE.value}
    assert not asked and require_decided(bench.procedure()) is None


def test_stranded_records_are_decided_on_by_a_second_person(found: Any, asked: list[dict[str, Any]]) -> None:
    """The question has figures and digest; without an answer nothing that follows is allowed."""
    bench = found(ORDERS)
    with pytest.raises(TaskAwaitingInput):
        gate().execute(bench.context())
    digest = planned_return(bench.procedure()).digest
    assert digest in asked[0]["subject"] and "| orders | 3 |" in asked[0]["body"]
    with pytest.raises(Refusal, match="decide_stranded_records did not happen"):
        require_decided(bench.procedure())


def test_the_answer_holds_for_what_was_found_only(found: Any) -> None:
    """What is found later, and more, was decided on by nobody."""
    bench = found(ORDERS)
    bench.api.answer(GATE, f"Decision {planned_return(bench.procedure()).digest}")
    bench.done(bench.procedure(), GATE, asked=True)
    assert require_decided(bench.procedure()).by == "bob"
    bench.done(
        bench.procedure(),
        Step.FIND_STRANDED_RECORDS,
        digest="e" * 64,
        topics=[ORDERS | {"records": 4}],
        compacted=[],
        bytes_there=500,
    )
    with pytest.raises(ApprovalMissing, match="does not name digest"):
        require_decided(bench.procedure())


def test_what_cannot_be_done_is_refused_before_anybody_is_asked(found: Any, asked: list[dict[str, Any]]) -> None:
    """In append nothing can be replayed: the run ends, and the message says what to ask for instead."""
    bench = found(ORDERS, stranded={".*": "replay"})
    with pytest.raises(
        AirflowFailException, match="orders: replay is impossible for 3 records; mode append leaves stranded records"
    ):
        gate().execute(bench.context())
    assert not asked


def test_topics_are_not_made_anew_without_being_asked_for(found: Any, asked: list[dict[str, Any]]) -> None:
    """Mode recreate deletes logs: it is asked for though nothing is stranded."""
    bench = found(mode="recreate")
    with pytest.raises(TaskAwaitingInput):
        gate().execute(bench.context())
    assert "Delete and recreate topics" in asked[0]["subject"] and "500 bytes" in asked[0]["body"]


@pytest.mark.parametrize(
    "choices",
    [
        {"mode": "overwrite"},
        {"compare": True},
        {"stranded": {"orders": "lose"}},
        {"stranded": {"[": "keep"}},
        {"stranded": ["keep"]},
    ],
)
def test_a_choice_that_there_is_not_is_refused_before_anything_is_touched(
    make_bench: Any, choices: dict[str, Any]
) -> None:
    """Bad modes, decisions and expressions end the run with the param's name."""
    bench = make_bench(dag_id="failback")
    bench.params |= choices
    with pytest.raises(BadInput, match=next(iter(choices))):
        bench.procedure()


def test_the_approver_reads_what_the_export_leaves_out(make_bench: Any, asked: list[dict[str, Any]]) -> None:
    """Approved with it: the digest differs from that of an export of whole records."""
    digests = []
    for form, said in (
        ({"values": "omit", "keys": "hash"}, "whatever is decided: without values and with hashed keys."),
        ({"values": "keep", "keys": "keep"}, "whatever is decided."),
    ):
        bench = make_bench(dag_id="failback")
        export = {"folder": "find-1", "files": {"file": "f", "rows": 1, "sha256": "s"}, "form": form}
        bench.done(
            bench.opened(), Step.FIND_STRANDED_RECORDS, digest="f" * 64, topics=[ORDERS], compacted=[], export=export
        )
        with pytest.raises(TaskAwaitingInput):
            gate().execute(bench.context())
        assert said in asked[-1]["body"]
        digests.append(planned_return(bench.procedure()).digest)
    assert digests[0] != digests[1]
