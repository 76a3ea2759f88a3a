"""open_target without the source: nothing is opened before everything was looked at."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions.recheck import recheck_preconditions
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.errors import ConnectUnavailable, DeadlinePassed, Refusal
from kafka_dr.vocabulary import Entry, Step

from tests.support.facts import figures_of
from tests.support.given_up_source import DEDICATED, FLOW, OPEN, STOP, T0, act, denials, execute


def test_the_target_opens_without_the_source(ready: Any) -> None:
    """The denials of the plan go; what shows that no position changed is said."""
    told = execute(ready, OPEN)
    assert denials(ready) == set() and ready.kinds(OPEN) == [Entry.INTENT, Entry.OUTCOME]
    found = (told["acl_entries_removed"], told["positions_unchanged"], told["canary"]["offset"])
    assert found == (1, "not checked: the source was given up", 0)


def test_opening_twice_is_opening_once(ready: Any) -> None:
    """A second copy of the task changes nothing."""
    execute(ready, OPEN)
    execute(ready, OPEN)
    assert ready.kinds(OPEN) == [Entry.INTENT, Entry.OUTCOME]


UNPLANNED = AclEntry("topic", "orders", "literal", "User:app", "*", "write", "deny")
CHANGES = {
    "a group has members": (
        lambda b: b.clusters["standby"].members.update(billing=1),
        "Groups have members on standby.*billing",
    ),
    "somebody wrote on the target": (
        lambda b: b.clusters["standby"].log_ends.update({T0: 11}),
        "Log ends of the target moved",
    ),
    "the source connector runs again": (
        lambda b: b.workers["standby"].states.update({"p.source": "RUNNING"}),
        "p.source runs again",
    ),
    "the checkpoint connector runs again": (
        lambda b: b.workers["standby"].states.update({"p.checkpoint": "RUNNING"}),
        "p.checkpoint runs again",
    ),
    "a denial that nobody approved": (
        lambda b: b.clusters["standby"].acls.add(UNPLANNED),
        "DENY entries for clients that the plan does not list",
    ),
    "the approval is gone": (lambda b: b.api.answers.clear(), "approve_data_loss was never answered"),
    "the approval is the starter's": (lambda b: setattr(b.api, "starter", "bob"), "bob started the run"),
    "the approval is of another plan": (
        lambda b: b.api.answer(Step.APPROVE_DATA_LOSS, "Lose this? Plan " + "0" * 64),
        "does not name digest",
    ),
    "nobody watches for the old source": (lambda b: b.no_watcher(), "No process watches the old source"),
    "the way back has begun": (
        lambda b: b.procedure().authority.write(Step.RETURN_TO_SOURCE, Entry.INTENT, {"reopens_source": True}),
        "This run returns to the source",
    ),
}


@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=CHANGES)
def test_nothing_is_meant_before_everything_was_looked_at(ready: Any, change: Any, said: str) -> None:
    """Whatever changed while people waited: no intent, no denial removed."""
    change(ready)
    before = denials(ready)
    with pytest.raises(AirflowFailException, match=said):
        execute(ready, OPEN)
    assert Entry.INTENT not in ready.kinds(OPEN) and denials(ready) == before


def test_a_connector_that_is_unknown_hides_no_other(ready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow without a checkpoint connector: its source connector's state still counts."""
    worker = ready.workers["standby"]
    worker.states["p.source"] = "RUNNING"
    status = worker.status

    def unknown(name: str, **kwargs: Any) -> Any:
        if name == "p.checkpoint":
            raise ConnectUnavailable("the request GET /connectors to Connect failed", "no such connector")
        return status(name, **kwargs)

    monkeypatch.setattr(worker, "status", unknown)
    with pytest.raises(AirflowFailException, match="p.source runs again"):
        execute(ready, OPEN)


def test_a_connector_that_still_closes_its_clients_and_a_silent_worker_keep_nobody(
    ready: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STOPPED with tasks left mirrors nothing; what a silent worker does would show in the target's ends."""
    worker = ready.workers["standby"]
    status = worker.status
    monkeypatch.setattr(
        worker,
        "status",
        lambda name, **kwargs: (
            type("S", (), {"state": "STOPPED", "stopped": False, "tasks": {0: "RUNNING"}})()
            if name == "p.source"
            else status(name, **kwargs)
        ),
    )
    execute(ready, OPEN)
    assert ready.kinds(OPEN)[-1] == Entry.OUTCOME


def stopping(bench: Any, *names: str) -> Any:
    """Connectors were asked to stop, were never seen STOPPED, and still run; returns their worker."""
    bench.procedure().authority.write(STOP, Entry.INTENT, {"stops_connectors": list(names)})
    bench.workers["standby"].states.update(dict.fromkeys(names, "RUNNING"))
    return bench.workers["standby"]


def stops_after(worker: Any, name: str, looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connector is STOPPED at one of the next looks at it."""
    number, status = itertools.count(1), worker.status

    def later(asked: str, timeout: float) -> Any:
        if asked == name and next(number) == looks:
            worker.states[name] = "STOPPED"
        return status(asked, timeout)

    monkeypatch.setattr(worker, "status", later)


def stop_seconds(bench: Any, seconds: float) -> None:
    """Another deadline for connectors."""
    bench.change_params(stop_seconds=seconds)


def test_a_source_connector_that_stops_as_it_was_asked_keeps_nobody(ready: Any) -> None:
    """Its source is dead: Connect closes its clients for a minute. That nothing is written any more is looked at
    once more.
    """
    stopping(ready, "p.source")
    execute(ready, OPEN)
    assert ready.kinds(OPEN)[-1] == Entry.OUTCOME and denials(ready) == set()


def test_what_a_stopping_connector_still_mirrored_is_found(ready: Any) -> None:
    """The source thawed in between: the ends are not the boundary, and nobody is let in."""
    stopping(ready, "p.source")
    ready.clusters["standby"].log_ends[T0] = 11
    with pytest.raises(AirflowFailException, match="Log ends of the target moved before open_target had begun"):
        execute(ready, OPEN)
    assert Entry.INTENT not in ready.kinds(OPEN)


def test_what_was_stopped_and_runs_again_is_refused(ready: Any) -> None:
    """It was asked, and seen STOPPED: somebody has resumed it since."""
    stopping(ready, "p.source")
    kept = figures_of(ready.procedure(), STOP)["boundary"]
    ready.procedure().authority.write(
        STOP, Entry.OUTCOME, {"asked": True, "states": {"p.source": "STOPPED"}, "boundary": kept}
    )
    with pytest.raises(AirflowFailException, match="p.source runs again"):
        execute(ready, OPEN)


def test_what_was_asked_long_ago_and_runs_is_refused(ready: Any) -> None:
    """No connector takes that long: it was resumed, or it hangs."""
    stopping(ready, "p.source")
    stop_seconds(ready, 0.2)
    time.sleep(0.3)
    with pytest.raises(AirflowFailException, match="p.source runs again"):
        execute(ready, OPEN)


@pytest.mark.parametrize("step", [Step.COMMIT_GROUPS, OPEN])
def test_the_checkpoint_connector_is_waited_for_before_anybody_could_be_set_back(
    ready: Any, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its group sync could move what is committed, and a group that has consumers."""
    worker, asked = stopping(ready, "p.checkpoint"), []
    stops_after(worker, "p.checkpoint", 4, monkeypatch)
    monkeypatch.setattr(
        "kafka_dr.steps.planned.commit_groups.CommitGroups.act",
        lambda *_: asked.append(worker.states["p.checkpoint"]) or {},
    )
    monkeypatch.setattr(
        "kafka_dr.steps.unplanned.open_target.require_reviewed",
        lambda *_: asked.append(worker.states["p.checkpoint"]),
    )
    act(ready, step)
    assert asked == ["STOPPED"]


@pytest.mark.parametrize(("step", "asked_before"), [(Step.COMMIT_GROUPS, 0.6), (OPEN, 0.0)])
def test_a_checkpoint_connector_that_does_not_stop_ends_the_run(ready: Any, step: Step, asked_before: float) -> None:
    """Nothing is committed, nobody is let in."""
    stopping(ready, "p.checkpoint")
    stop_seconds(ready, 0.6)
    time.sleep(asked_before)
    with pytest.raises(DeadlinePassed, match="p.checkpoint still runs 1 s after the request to stop"):
        act(ready, step)
    assert denials(ready) and not ready.clusters["standby"].committed and Entry.INTENT not in ready.kinds(OPEN)


def test_a_checkpoint_connector_that_nobody_asked_is_no_stopping_one(ready: Any) -> None:
    """Its worker was silent when it should be asked, and is back."""
    ready.workers["standby"].states["p.checkpoint"] = "RUNNING"
    with pytest.raises(Refusal, match="p.checkpoint runs again"):
        act(ready, Step.COMMIT_GROUPS)


def test_a_step_begun_again_accepts_what_still_stops(ready: Any) -> None:
    """Killed and tried again while the connectors close their clients: that is no change; one that nobody asked to
    stop is.
    """
    stopping(ready, "p.source", "p.checkpoint")
    recheck_preconditions(ready.procedure())
    stop_seconds(ready, 0.1)
    time.sleep(0.2)
    with pytest.raises(Refusal, match="p.source runs again"):
        recheck_preconditions(ready.procedure())


def test_a_silent_worker_keeps_the_target_closed_to_nobody(ready: Any) -> None:
    """It died with the source."""
    ready.workers["standby"].away = True
    execute(ready, OPEN)
    assert denials(ready) == set()


@pytest.fixture
def dedicated(make_bench: Any) -> Any:
    """As `ready`, where MirrorMaker 2 runs in dedicated mode; its process runs, and nobody asked it to end."""
    bench = make_bench(dag_id="unplanned_failover", flows=[DEDICATED])
    bench.stopped_without_source(bench.given_up(groups=("billing",), active=("billing",)))
    return bench


@pytest.mark.parametrize("step", [Step.COMMIT_GROUPS, OPEN])
def test_a_dedicated_process_that_runs_again_ends_the_run(dedicated: Any, step: Step) -> None:
    """Somebody started it after it stood: its group sync could set groups back, which no log end shows."""
    with pytest.raises(Refusal, match=f"{FLOW} runs again"):
        act(dedicated, step)
    assert denials(dedicated) and not dedicated.clusters["standby"].committed


@pytest.mark.parametrize("step", [Step.COMMIT_GROUPS, OPEN])
def test_a_dedicated_process_that_was_asked_to_end_is_waited_for(
    dedicated: Any, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook answers at once, and ending goes on in the background."""
    looks, reached = itertools.count(), []
    dedicated.procedure().authority.write(STOP, Entry.INTENT, {"stops_processes": FLOW})
    monkeypatch.setattr(dedicated.hook, "running", lambda flow, timeout: int(next(looks) < 3))
    monkeypatch.setattr(
        "kafka_dr.steps.planned.commit_groups.CommitGroups.act", lambda *_: reached.append(next(looks)) or {}
    )
    monkeypatch.setattr("kafka_dr.steps.unplanned.open_target.require_reviewed", lambda *_: reached.append(next(looks)))
    act(dedicated, step)
    assert reached and reached[0] > 3


@pytest.mark.parametrize(("step", "asked_before"), [(Step.COMMIT_GROUPS, 0.6), (OPEN, 0.0)])
def test_a_dedicated_process_that_does_not_end_ends_the_run(dedicated: Any, step: Step, asked_before: float) -> None:
    """Nothing is committed, nobody is let in."""
    dedicated.procedure().authority.write(STOP, Entry.INTENT, {"stops_processes": FLOW})
    stop_seconds(dedicated, 0.6)
    time.sleep(asked_before)
    with pytest.raises(DeadlinePassed, match=f"{FLOW} still runs 1 s after the request to stop"):
        act(dedicated, step)
    assert denials(dedicated) and not dedicated.clusters["standby"].committed
    assert Entry.INTENT not in dedicated.kinds(OPEN)


@pytest.mark.parametrize("away", [False, True])
def test_a_dedicated_process_that_has_ended_or_cannot_be_asked_about_keeps_nobody(dedicated: Any, away: bool) -> None:
    """As a worker that is silent."""
    dedicated.hook.processes, dedicated.hook.away = {FLOW: 0}, away
    execute(dedicated, OPEN)
    assert denials(dedicated) == set()


@pytest.mark.parametrize("by", [STOP, Step.WATCH_OLD_SOURCE])
def test_a_dedicated_process_is_left_as_it_is_by_the_way_back(make_bench: Any, by: Step) -> None:
    """The hook can only end it: a person has to start it, and the outcome says so, whether the step or the watcher
    had it ended.
    """
    bench = make_bench(dag_id="unplanned_failover", flows=[DEDICATED])
    bench.given_up().authority.write(by, Entry.INTENT, {"stops_processes": FLOW})
    told = execute(bench, Step.RETURN_TO_SOURCE)
    assert told["connectors_resumed"] == [] and "runs in dedicated mode" in told["replication_left_stopped"]


def test_killed_after_its_intent_it_goes_on(ready: Any) -> None:
    """Clients may already write and read; the approval was checked. MirrorMaker 2 must stand still."""
    ready.procedure().authority.write(OPEN, Entry.INTENT, {"removes_acl_entries": [vars(e) for e in denials(ready)]})
    ready.clusters["standby"].log_ends[T0], ready.clusters["standby"].members["billing"] = 99, 1
    ready.workers["standby"].states["p.source"] = "RUNNING"
    with pytest.raises(AirflowFailException, match="runs again"):
        execute(ready, OPEN)
    ready.workers["standby"].states["p.source"] = "STOPPED"
    execute(ready, OPEN)
    assert denials(ready) == set() and ready.kinds(OPEN)[-1] == Entry.OUTCOME
