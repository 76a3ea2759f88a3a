"""The evidence follows from the journal alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.evidence.evidence import evidence_of, outcome_of, seconds_of, steps_of
from kafka_dr.procedures import steps_of as table_of
from kafka_dr.vocabulary import Entry, Outcome, Step

from tests.support.facts import entry

ORDER = [step.value for step in table_of("planned_failover")]
BEFORE_OPENING = ORDER[: ORDER.index(Step.OPEN_TARGET)]
REQUEST = {"dag_id": "planned_failover", "source": "primary", "target": "standby", "reason": "maintenance"}
FAILURE = {"error": "FenceNotProven", "reason": "Clients may still act", "seen": "User:app", "next_step": "Look"}


def moment(second: float) -> datetime:
    """A moment of the run."""
    return datetime(2026, 11, 21, 10, tzinfo=UTC) + timedelta(seconds=second)


def at(second: float) -> str:
    """A moment as the evidence names it."""
    return moment(second).isoformat()


def line(step: str, kind: str, second: float = 0.0, **payload: Any) -> Any:
    """One journal line."""
    return entry(step, kind, moment(second), **payload)


def done(*steps: str, **payload: Any) -> list[Any]:
    """Steps that began and ended, one second each."""
    planned = {"plan": {"topics": [], "unproven": []}, "plan_digest": "d"}
    pairs = [
        (
            line(s, Entry.INTENT, 2 * n),
            line(s, Entry.OUTCOME, 2 * n + 1, **(planned if s == Step.FORECAST else {}), **payload),
        )
        for n, s in enumerate(steps)
    ]
    return [entry for pair in pairs for entry in pair]


def evidence(
    lines: list[Any], closed: float = 100.0, previous: str | None = None, dag_id: str = "planned_failover"
) -> dict[str, Any]:
    """The evidence of these lines."""
    order = [step.value for step in table_of(dag_id)]
    return evidence_of(
        "p-1", REQUEST | {"dag_id": dag_id}, lines, order, {"cut_off": [], "boundary": []}, at(closed), previous
    )


TO_THE_END = ORDER[: ORDER.index(Step.START_REVERSE_REPLICATION) + 1]
HISTORIES = {
    "completed": (done(*TO_THE_END), Outcome.COMPLETED),
    "lease refused": ([line(Step.OPEN_PROCEDURE, Entry.REFUSAL, 1, **FAILURE)], Outcome.REFUSED),
    "nothing at all": ([], Outcome.REFUSED),
    "not ready": (
        [
            *done("open_procedure"),
            line("check_readiness", Entry.INTENT),
            line("check_readiness", Entry.REFUSAL, 3, **FAILURE),
            *done("return_to_source", touched=False),
        ],
        Outcome.REFUSED,
    ),
    "returned": (
        [
            *done(*BEFORE_OPENING[:4]),
            line("fence_producers", Entry.INTENT),
            line("fence_producers", Entry.REFUSAL, 9, **FAILURE),
            *done("return_to_source", touched=True),
        ],
        Outcome.RETURNED,
    ),
    "return failed": (
        [
            *done(*BEFORE_OPENING[:4]),
            line("fence_producers", Entry.INTENT),
            line("return_to_source", Entry.INTENT, 8),
            line("return_to_source", Entry.FAILURE, 9, **FAILURE),
        ],
        Outcome.FAILED,
    ),
    "killed before the way back ran": (
        [*done("open_procedure"), line("check_readiness", Entry.INTENT)],
        Outcome.FAILED,
    ),
    "stuck after opening": (
        [
            *done(*TO_THE_END[:13]),
            line("redirect_clients", Entry.INTENT),
            line("redirect_clients", Entry.FAILURE, 40, **FAILURE),
        ],
        Outcome.FAILED,
    ),
}


@pytest.mark.parametrize(("lines", "outcome"), HISTORIES.values(), ids=HISTORIES)
def test_the_outcome_follows_from_the_journal(lines: list[Any], outcome: Outcome) -> None:
    """Invariant 2: each way to end has its outcome."""
    assert outcome_of(lines, "planned_failover") is outcome
    assert evidence(lines)["outcome"] == outcome.value


WITHOUT_SOURCE = [step.value for step in table_of("unplanned_failover")]


def test_without_a_source_the_clients_arrival_completes() -> None:
    """There is nothing to replicate to; the plan is the inventory's, with what is lost, and its gate is people's
    time.
    """
    lines = done(*WITHOUT_SOURCE[: WITHOUT_SOURCE.index(Step.VERIFY_CLIENTS) + 1])
    lost = {"topic": "orders", "partition": 0, "from_offset": 7, "certain_to": 9, "possible_to": None}
    assessed = {"plan_digest": "d", "stranded": "assess_data_loss-1"}
    for one in lines:
        if (one.step, one.kind) == (Step.ASSESS_DATA_LOSS, Entry.OUTCOME):
            one.payload |= assessed | {"plan": one.payload["plan"] | {"loss": [lost]}}
    told = evidence(lines, dag_id="unplanned_failover")
    found = (told["outcome"], told["loss"], told["stranded"], told["plan_digest"])
    assert found == ("completed", [lost], "assess_data_loss-1", "d")
    assert outcome_of(lines[:-1], "unplanned_failover") is Outcome.FAILED and told["seconds"]["people"] == 2.0


def test_the_window_of_confirmation_is_not_our_own_time() -> None:
    """It was asked for."""
    lines = [
        line("open_procedure", Entry.OPENED, triggered_at=at(0)),
        line("confirm_source_lost", Entry.INTENT, 0),
        line("confirm_source_lost", Entry.OUTCOME, 20, window_seconds=15.0),
    ]
    assert evidence(lines, 40, dag_id="unplanned_failover")["seconds"]["own"] == 25.0


def test_only_the_last_step_completes() -> None:
    """A run that lacks its last step's outcome is not completed."""
    assert outcome_of(done(*TO_THE_END[:-1]), "planned_failover") is not Outcome.COMPLETED


def test_a_killed_step_is_told_as_such() -> None:
    """A step with an intent and nothing after it is failed, and says that it left no outcome."""
    told = evidence([*done("open_procedure"), line("check_readiness", Entry.INTENT, 5)])
    assert told["failing_step"] == "check_readiness"
    assert "no outcome" in told["reason_for_outcome"]
    assert [s["state"] for s in told["steps"]] == ["done", "failed"]


@pytest.mark.parametrize("told", [{"answers_since": at(9)}, {"stops_connectors": ["a"]}])
def test_a_watch_that_is_not_over_is_no_failure(told: dict[str, Any]) -> None:
    """The procedure completed, and its old source is watched still: no step of it failed, and none is named."""
    arrived = done(*WITHOUT_SOURCE[: WITHOUT_SOURCE.index(Step.VERIFY_CLIENTS) + 1])
    lines = [*arrived, line(Step.WATCH_OLD_SOURCE, Entry.NOTE if "answers_since" in told else Entry.INTENT, 50, **told)]
    states = {s["id"]: s["state"] for s in steps_of(lines, WITHOUT_SOURCE)}
    assert states.pop("watch_old_source") == "watching" and set(states.values()) == {"done"}
    assert {s["state"] for s in steps_of([*lines, line(Step.WATCH_OLD_SOURCE, Entry.OUTCOME, 60)], WITHOUT_SOURCE)} == {
        "done"
    }


def test_refused_then_retried_then_done() -> None:
    """A step that failed first and was done later is done, keeps its failure, and ends when it was done."""
    lines = [
        line("forecast", Entry.INTENT, 1),
        line("forecast", Entry.FAILURE, 2, **FAILURE),
        line("forecast", Entry.INTENT, 5),
        line("forecast", Entry.OUTCOME, 6, plan={}, plan_digest="d", end_sum=3),
    ]
    (step,) = steps_of(lines, ORDER)
    assert (step["state"], step["started_at"], step["ended_at"]) == ("done", at(1), at(6))
    assert step["failures"] == [{"at": at(2), **FAILURE}]
    assert step["figures"] == {"plan_digest": "d", "active_groups": [], "end_sum": 3}


def test_done_then_looked_at_again_and_refused() -> None:
    """An expiring step that was done once and refused when it was looked at again is the failing step."""
    lines = [
        *done(*BEFORE_OPENING[:5]),
        line("fence_producers", Entry.INTENT, 20),
        line("fence_producers", Entry.REFUSAL, 21, **FAILURE),
        *done("return_to_source", touched=True),
    ]
    told = evidence(lines)
    assert told["failing_step"] == "fence_producers" and told["reason_for_outcome"].startswith(FAILURE["reason"])
    assert told["fenced_at"] is None


@pytest.mark.parametrize(("through", "state"), [(len(TO_THE_END), "refused"), (13, "failed")])
def test_a_way_back_that_was_refused_is_no_failure_of_a_completed_run(through: int, state: str) -> None:
    """It was tried when the target was open; the run went forward to its end. In one that did not, it failed."""
    back = [line("return_to_source", Entry.INTENT, 70), line("return_to_source", Entry.REFUSAL, 71, **FAILURE)]
    steps = {s["id"]: s for s in evidence([*done(*TO_THE_END[:through]), *back])["steps"]}
    assert steps["return_to_source"]["state"] == state
    assert steps["return_to_source"]["failures"][0]["reason"] == FAILURE["reason"]
    assert {s["state"] for name, s in steps.items() if name != "return_to_source"} == {"done"}


def test_a_way_back_that_was_killed_was_not_refused() -> None:
    """Nobody knows how it ended: it stays what it is, also in a completed run."""
    steps = {s["id"]: s for s in evidence([*done(*TO_THE_END), line("return_to_source", Entry.INTENT, 70)])["steps"]}
    assert steps["return_to_source"]["state"] == "failed"


def test_problems_are_told_and_covered_by_the_digest() -> None:
    """What the evidence lacks stands in it, and cannot be taken out unseen; usually there is nothing."""
    lines = done(*TO_THE_END)
    bounds = {"cut_off": [], "boundary": []}
    told = evidence_of("p-1", REQUEST, lines, ORDER, bounds, at(100), None, ["boundary.parquet is gone"])
    assert told["problems"] == ["boundary.parquet is gone"]
    assert evidence(lines)["problems"] == [] and evidence(lines)["digest"] != told["digest"]


def test_drill_is_a_field_of_every_evidence() -> None:
    """Null where the procedure is no drill; a drill's section stands there whole, and the digest covers it."""
    for lines, _ in HISTORIES.values():
        assert evidence(lines)["drill"] is None
    bounds = {"cut_off": [], "boundary": []}
    section = {"kind": "canary", "verdict": "passed"}
    told = evidence_of("p-1", REQUEST, done(*TO_THE_END), ORDER, bounds, at(100), None, drill=section)
    assert told["drill"] == section and told["digest"] != evidence(done(*TO_THE_END))["digest"]


def test_the_first_failing_step_is_named_with_what_was_seen_and_what_to_do() -> None:
    """The reason is the failing step's last failure, not an earlier one of its own nor one of a later step."""
    earlier = {**FAILURE, "reason": "Something else"}
    lines = [
        *done("open_procedure"),
        line("check_readiness", Entry.INTENT),
        line("check_readiness", Entry.REFUSAL, 3, **earlier),
        line("check_readiness", Entry.REFUSAL, 4, **FAILURE),
        line("return_to_source", Entry.REFUSAL, 5, **earlier),
    ]
    told = evidence(lines)
    found = (told["failing_step"], told["reason_for_outcome"])
    said = "Clients may still act. Seen: User:app. Next: Look. Page: runbooks/stuck_procedure.md#check_readiness"
    assert found == ("check_readiness", said)


def test_steps_stand_in_the_procedures_order_and_only_if_they_began() -> None:
    """Whatever order the journal has, rows follow the procedure; steps that never began have none."""
    assert [s["id"] for s in steps_of(done("forecast", "check_readiness"), ORDER)] == ["check_readiness", "forecast"]


def test_own_time_leaves_out_gates_and_drains() -> None:
    """own = trigger to end, less all gates, wait_for_catch_up, drain_consumers and wait_for_zero_lag."""
    spans = {
        "open_procedure": (10, 11),
        "approve_failover": (20, 50),
        "review_translation": (60, 65),
        "drain_consumers": (51, 53),
        "wait_for_zero_lag": (53, 57.5),
    }
    steps = [{"id": s, "started_at": at(a), "ended_at": at(b)} for s, (a, b) in spans.items()]
    assert seconds_of(steps, at(5), at(105)) == {"own": 58.5, "drain": 6.5, "people": 35.0, "whole": 100.0}
    back = [
        {"id": s, "started_at": at(a), "ended_at": at(b)}
        for s, (a, b) in {"decide_stranded_records": (12, 14), "wait_for_catch_up": (15, 19)}.items()
    ]
    assert seconds_of([*steps, *back], at(5), at(105)) == {"own": 52.5, "drain": 10.5, "people": 37.0, "whole": 100.0}


def test_times_in_other_zones_are_compared_as_moments() -> None:
    """Airflow's own time of the trigger may carry another offset."""
    assert seconds_of([], "2026-11-21T11:00:00+01:00", at(30))["own"] == 30.0


def test_a_run_without_steps_has_a_time_of_zero() -> None:
    """Nothing began, nothing took time."""
    assert evidence([])["seconds"] == {"own": 0.0, "drain": 0.0, "people": 0.0, "whole": 0.0, "downtime": None}


def test_all_fields_of_the_contract_are_there_even_for_a_refused_run() -> None:
    """Whoever reads evidence finds every field, null or empty where there is nothing to say."""
    told = evidence([])
    fields = """procedure_id dag_id source target reason outcome plan plan_digest approvals steps fenced_at cut_off boundary classes rereads repeats
        loss positions stranded seconds digest previous_digest""".split()
    assert set(fields) <= set(told)
    assert told["fenced_at"] is None and told["plan"] is None and told["approvals"] == [] and told["positions"] is None
    assert set(told["rereads"]) == {"bound", "mirror_maker"} and {"own", "drain", "people"} <= set(told["seconds"])


def test_figures_of_the_steps_arrive() -> None:
    """Plan, approvals, fence, classes, re-reads and files are the journal's."""
    lines = [
        line("open_procedure", Entry.OPENED, 1, triggered_at=at(0)),
        *done("open_procedure"),
        line("forecast", Entry.OUTCOME, 4, plan={"topics": []}, plan_digest="d1"),
        line("approve_failover", Entry.APPROVAL, 5, gate="approve_failover", by="bob", at=at(5), digest="d1"),
        line("fence_producers", Entry.OUTCOME, 6, fenced_at=at(6)),
        line(
            "translate_offsets",
            Entry.OUTCOME,
            7,
            classes={"END": 2},
            bound=0,
            mirror_maker_bound=9,
            repeats={"a": 1},
            translation={"file": "positions.parquet", "rows": 2, "sha256": "s"},
        ),
    ]
    told = evidence(lines, previous="before")
    found = (told["plan"], told["plan_digest"], told["fenced_at"], told["classes"])
    assert found == ({"topics": []}, "d1", at(6), {"END": 2})
    assert told["rereads"] == {"bound": 0, "mirror_maker": 9} and told["repeats"] == {"a": 1}
    assert told["positions"] == "positions.parquet"
    assert told["approvals"] == [
        {"step": "approve_failover", "gate": "approve_failover", "by": "bob", "at": at(5), "digest": "d1"}
    ]
    assert told["previous_digest"] == "before" and told["seconds"]["whole"] == 100.0


def test_records_missing_on_the_target_are_listed_as_loss() -> None:
    """Holes and what the target's retention deleted, ordered, none left out; without any the list is empty."""
    hole = {"topic": "b", "partition": 1, "from_offset": 7, "to_offset": 9, "records": 2, "reason": "not on the target"}
    cut = {
        "topic": "a",
        "partition": 0,
        "from_offset": 0,
        "to_offset": 5,
        "records": 4,
        "reason": "below the target's log start",
    }
    told = evidence([line("translate_offsets", Entry.OUTCOME, 7, holes=[hole], cut=[cut])])
    assert told["loss"] == [
        {
            "topic": "a",
            "partition": 0,
            "from_offset": 0,
            "certain_to": 5,
            "possible_to": 5,
            "records": 4,
            "reason": "below the target's log start",
        },
        {
            "topic": "b",
            "partition": 1,
            "from_offset": 7,
            "certain_to": 9,
            "possible_to": 9,
            "records": 2,
            "reason": "not on the target",
        },
    ]
    assert evidence([line("translate_offsets", Entry.OUTCOME, 7, holes=[], cut=[])])["loss"] == []


def test_the_digest_covers_everything_else() -> None:
    """Whoever recomputes the digest without its own field finds it; any change is seen."""
    told = evidence(done(*TO_THE_END))
    rest = {k: v for k, v in told.items() if k != "digest"}
    assert digest_of(rest) == told["digest"]
    assert digest_of({**rest, "outcome": "returned"}) != told["digest"]


def test_who_continues_whom_stands_in_the_evidence() -> None:
    """By the entries that say so; a run that got its lease back is continued by nobody."""
    opened = line(
        Step.OPEN_PROCEDURE, Entry.OPENED, triggered_at=at(0), continues={"procedure_id": "p-0", "fenced": True}
    )
    notes = [line(Step.OPEN_PROCEDURE, Entry.NOTE, n, continued_by=by) for n, by in enumerate(("u-1", None, "u-2"))]
    assert evidence([opened])["continues"] == {"procedure_id": "p-0", "fenced": True}
    assert evidence([])["continues"] is None
    assert [evidence([opened, *notes[:count]])["continued_by"] for count in range(4)] == [None, "u-1", None, "u-2"]


def test_a_cool_down_that_was_not_waited_for_stands_in_the_evidence() -> None:
    """By the entry that opened the run; None where none was running, or where the run was opened before there was a
    choice.
    """
    told = {"procedure_id": "p-0", "outcome": "completed", "ended_at": at(0), "ends_at": at(9), "acknowledged": "why"}
    for more, wanted in (({"cool_down": told}, told), ({"cool_down": None}, None), ({}, None)):
        assert evidence([line(Step.OPEN_PROCEDURE, Entry.OPENED, triggered_at=at(0), **more)])["cool_down"] == wanted
    assert evidence([])["cool_down"] is None


@pytest.mark.parametrize(
    ("files_at", "exporter", "place"),
    [
        ("", None, "find_stranded_records-3"),
        ("s3://dr/production/p-1/", None, "s3://dr/production/p-1/find_stranded_records-3"),
        ("s3://dr/production/p-1/", "p-0", "s3://dr/production/p-0/find_stranded_records-3"),
    ],
)
def test_the_export_is_named_where_it_is(files_at: str, exporter: str | None, place: str) -> None:
    """A folder beside the evidence; with a store a URI, in the folder of the run that exported; and what it holds."""
    stranded = {"folder": "find_stranded_records-3", "files": {"file": "f", "rows": 1, "sha256": "s"}}
    stranded["form"] = {"values": "omit", "keys": "hash"}
    if exporter:
        stranded["procedure_id"] = exporter
    lines = [line(Step.FIND_STRANDED_RECORDS, Entry.OUTCOME, 4, export=stranded)]
    order = [step.value for step in table_of("failback")]
    told = evidence_of(
        "p-1",
        REQUEST | {"dag_id": "failback"},
        lines,
        order,
        {"cut_off": [], "boundary": []},
        at(9),
        None,
        files_at=files_at,
    )
    assert told["stranded"] == place and told["exports"] == {"values": "omit", "keys": "hash"}
    assert evidence(done(*TO_THE_END))["exports"] is None
