"""The steps of a run whose source was given up: nothing of it is asked, and nothing goes on while the target
still moves.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import ApprovalMissing, ConnectUnavailable, Refusal
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.steps.unplanned.commit_groups import CommitWithoutSource
from kafka_dr.vocabulary import Entry, Step

from tests.plugins.kafka_dr.steps.unplanned.test_translate_offsets import assessed, recorded
from tests.support.bench import FENCE
from tests.support.facts import figures_of
from tests.support.given_up_source import (
    DEDICATED,
    DEFAULT,
    OPEN,
    STEPS,
    STOP,
    T0,
    TRANSLATE,
    act,
    boundary,
    denials,
    execute,
    moving,
)
from tests.support.lost_source import Recorder, held, seen

# -- stop_mirror_maker
# ---------------------------------------------------------------------------------------------------


def test_what_is_left_of_mirror_maker_is_stopped(lost: Any) -> None:
    """Source connector first; the target's still ends are the boundary."""
    told = execute(lost, STOP)
    assert lost.workers["standby"].asked == [("stop", "p.source"), ("stop", "p.checkpoint")]
    assert told["asked"] and told["states"] == {"p.checkpoint": "STOPPED", "p.source": "STOPPED"}
    assert boundary(lost) == {T0: 10}
    assert frame_partitions(lost.procedure().artifacts.load(told["replicated"]), "offset") == {T0: 9}, (
        "the last replicated offset that Connect keeps then"
    )


def test_a_silent_worker_does_not_keep_the_run(lost: Any) -> None:
    """It is told as that; the target's still ends are the proof."""
    lost.workers["standby"].away = True
    told = execute(lost, STOP)
    assert (told["asked"], told["states"]) == (False, {}) and "Connect" in told["worker_silent"]
    assert boundary(lost) == {T0: 10}
    assert told["replicated"]["rows"] == 0


def test_connectors_of_a_dead_source_are_asked_at_once_and_not_waited_for(lost: Any) -> None:
    """Connect closes their clients for a minute: the still ends are the boundary, and it is told who still has to
    stop.
    """
    lost.workers["standby"].late = {"p.source", "p.checkpoint"}
    began = time.monotonic()
    told = execute(lost, STOP)
    assert time.monotonic() - began < 5
    assert [name for _, name in lost.workers["standby"].asked] == ["p.source", "p.checkpoint"]
    assert (told["asked"], told["still_stopping"], boundary(lost)) == (True, ["p.checkpoint", "p.source"], {T0: 10})
    assert "RUNNING" in told["states"]["p.source"]
    assert [e.payload["stops_connectors"] for e in lost.entries(STOP) if "stops_connectors" in e.payload] == [
        ["p.source", "p.checkpoint"]
    ]


def test_one_connector_that_cannot_be_asked_keeps_the_other_from_nothing(
    lost: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are asked at once: what the worker answers for one is no reason to leave the other running."""
    worker, ask = lost.workers["standby"], lost.workers["standby"].ask_to_stop

    def failing(name: str, timeout: float) -> None:
        ask(name, timeout)
        if name == "p.source":
            raise ConnectUnavailable("the request PUT /connectors to Connect failed", "HTTP 409")

    monkeypatch.setattr(worker, "ask_to_stop", failing)
    told = execute(lost, STOP)
    assert "HTTP 409" in told["worker_silent"] and worker.states["p.checkpoint"] == "STOPPED"
    assert boundary(lost) == {T0: 10}


def test_connectors_of_a_source_that_answers_are_waited_for(make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was given up and may still be mirrored from: they stop within moments."""
    bench = make_bench(dag_id="unplanned_failover")
    procedure, worker = bench.given_up(), bench.workers["standby"]
    bench.done(procedure, Step.CONFIRM_SOURCE_LOST, state="slow", override="why")
    worker.late, looks, status = {"p.source"}, itertools.count(), worker.status

    def stops_later(name: str, timeout: float) -> Any:
        if name == "p.source" and worker.asked and next(looks) == 2:
            worker.states["p.source"] = "STOPPED"
        return status(name, timeout)

    monkeypatch.setattr(worker, "status", stops_later)
    told = execute(bench, STOP)
    assert "still_stopping" not in told and told["states"] == {"p.checkpoint": "STOPPED", "p.source": "STOPPED"}


@pytest.mark.parametrize("away", [False, True])
def test_in_dedicated_mode_the_stop_hook_is_asked(make_bench: Any, away: bool) -> None:
    """There is no worker to ask; a hook that is silent is told as that."""
    bench = make_bench(dag_id="unplanned_failover", flows=[DEDICATED])
    bench.given_up()
    bench.hook.away = away
    told = execute(bench, STOP)
    assert told["asked"] is not away and told["states"] == ({} if away else {"primary->standby": "STOPPED"})
    assert boundary(bench) == {T0: 10}
    assert (
        ("stop", "primary->standby") not in bench.hook.asked
        if away
        else ("stop", "primary->standby") in bench.hook.asked
    )


def test_the_boundary_is_where_the_target_came_to_rest(lost: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was on its way when the connectors were asked is part of it."""
    moving(lost, monkeypatch, looks=3)
    execute(lost, STOP)
    assert boundary(lost) == {T0: 13}


def test_what_was_on_its_way_when_the_connectors_stood_is_waited_for(
    lost: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target was at rest before they were asked, which proves nothing: it must be at rest after they stand."""
    worker = lost.workers["standby"]
    ask = worker.ask_to_stop

    def ask_late(name: str, timeout: float) -> None:
        ask(name, timeout)
        if name == "p.checkpoint":
            time.sleep(0.3)
            moving(lost, monkeypatch, looks=3)

    monkeypatch.setattr(worker, "ask_to_stop", ask_late)
    execute(lost, STOP)
    assert boundary(lost) == {T0: 13}


@pytest.mark.parametrize("away", [False, True])
def test_while_the_target_moves_nothing_goes_on(lost: Any, monkeypatch: pytest.MonkeyPatch, away: bool) -> None:
    """Until the deadline, whatever the worker says; no boundary is written."""
    lost.workers["standby"].away = away
    moving(lost, monkeypatch, looks=10**6)
    monkeypatch.setattr("kafka_dr.procedure.progress.Progress.clock", lambda self, step: 0.0)
    with pytest.raises(AirflowFailException, match="log ends of the target still move: orders-0"):
        execute(lost, STOP)
    assert Entry.OUTCOME not in lost.kinds(STOP)


def test_a_target_that_moves_is_waited_for_without_a_worker_slot(lost: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Woken later, it looks again, and connectors that stand are not asked again."""
    monkeypatch.setattr("kafka_dr.procedure.progress.PATIENCE_SECONDS", 0.0)
    moving(lost, monkeypatch, looks=2)
    with pytest.raises(TaskDeferred):
        execute(lost, STOP)
    STEPS[STOP](task_id=STOP.value).resume(lost.context())
    assert lost.workers["standby"].asked == [("stop", "p.source"), ("stop", "p.checkpoint")]
    assert lost.kinds(STOP)[-1] == Entry.OUTCOME


def test_without_the_approval_nothing_is_stopped(lost: Any) -> None:
    """Asked of the API by the step itself."""
    lost.api.answers.clear()
    with pytest.raises(AirflowFailException, match="never answered"):
        execute(lost, STOP)
    assert lost.workers["standby"].asked == []


def test_a_target_that_lacks_a_topic_has_no_boundary_there(lost: Any) -> None:
    """And is no reason to stop."""
    del lost.clusters["standby"].partitions["orders"]
    execute(lost, STOP)
    assert boundary(lost) == {}


# -- translate_offsets
# -----------------------------------------------------------------------------------------------------


# -- commit_groups
# ---------------------------------------------------------------------------------------------------------


def test_groups_are_committed_and_local_topics_made_without_the_source(make_lost: Any, recorder: Recorder) -> None:
    """Under default naming; of a topic that never reached the target, too."""
    recorded(recorder, "primary.orders")
    recorder.sample(seen(9, 0, "slow", "primary.slow"), held("at 30", 4, "slow"))
    bench = assessed(make_lost, "primary.orders", naming=DEFAULT)
    target = bench.clusters["standby"]
    del target.partitions["orders"]
    execute(bench, TRANSLATE)
    digest = figures_of(bench.procedure(), TRANSLATE)["digest"]
    bench.api.answer(Step.REVIEW_TRANSLATION, f"Translation {digest}")
    bench.done(bench.procedure(), Step.REVIEW_TRANSLATION, asked=True)
    execute(bench, Step.COMMIT_GROUPS)
    found = {str(tp): position.offset for tp, position in target.committed["at 30"].items()}
    assert found == {"primary.orders-0": 30, "orders-0": 0, "slow-0": 0}
    assert {"orders", "slow"} <= set(target.partitions)


def test_a_topic_that_never_reached_the_target_is_made_there(make_lost: Any, recorder: Recorder) -> None:
    """Its producers would fail after the opening: with the source's partitions and the cluster's settings, and its
    groups at its beginning; twice is once.
    """
    recorded(recorder)
    recorder.sample(seen(9, 0, "slow"), seen(4, 0, "slow", partition=1), held("at 30", 4, "slow"))
    bench = assessed(make_lost)
    target, made = bench.clusters["standby"], []
    create = target.create_topic
    target.create_topic = lambda name, partitions, **more: (
        made.append((name, partitions, more)) or create(name, partitions, **more)
    )
    execute(bench, TRANSLATE)
    bench.api.answer(Step.REVIEW_TRANSLATION, f"Translation {figures_of(bench.procedure(), TRANSLATE)['digest']}")
    bench.done(bench.procedure(), Step.REVIEW_TRANSLATION, asked=True)
    execute(bench, Step.COMMIT_GROUPS)
    assert made == [("slow", 2, {"configs": {}})] and {
        str(tp): position.offset for tp, position in target.committed["at 30"].items()
    } == {"orders-0": 30, "slow-0": 0, "slow-1": 0}
    figures = act(bench, Step.COMMIT_GROUPS)
    assert len(made) == 1 and figures.committed == 0
    assert frame_partitions(bench.procedure().artifacts.load(figures.local_ends), "offset") == {
        TopicPartition("slow", p): 0 for p in range(2)
    }
    assert [
        e.payload["creates_topics"] for e in bench.entries(Step.COMMIT_GROUPS) if "creates_topics" in e.payload
    ] == [["slow"]]


# -- open_target
# -----------------------------------------------------------------------------------------------------------


# -- after it, and back
# ----------------------------------------------------------------------------------------------------


def test_clients_are_sent_there_and_seen_to_arrive_without_the_source(ready: Any) -> None:
    """Nobody can tell who is left on the source; the group that was active when it was seen last is waited for."""
    execute(ready, OPEN)
    told = execute(ready, Step.REDIRECT_CLIENTS)
    assert told["clients_see"]["cluster"] == "standby"
    ready.params = ready.params | {"verify_seconds": 0.3}
    with pytest.raises(AirflowFailException, match="1 of 1 groups are not active on the target yet: billing"):
        execute(ready, Step.VERIFY_CLIENTS)
    ready.clusters["standby"].members["billing"], ready.clusters["standby"].log_ends[T0] = 1, 17
    told = execute(ready, Step.VERIFY_CLIENTS, attempt=2)
    assert (told["expected_groups"], told["left_on_source"], told["records_since_opening"]) == (1, None, 7)


ACTS = [Step.COMMIT_GROUPS, OPEN, Step.REDIRECT_CLIENTS]


@pytest.mark.parametrize("step", ACTS)
@pytest.mark.parametrize("gate", [Step.APPROVE_FAILOVER, Step.APPROVE_DATA_LOSS])
def test_every_irreversible_act_looks_at_the_approval_of_the_loss_again(ready: Any, step: Step, gate: Step) -> None:
    """Of that gate, whatever else was answered."""
    procedure = ready.procedure()
    digest = figures_of(procedure, Step.ASSESS_DATA_LOSS)["plan_digest"]
    ready.api.answers.clear()
    ready.api.answer(gate, f"Plan {digest}")
    frame = pd.DataFrame(
        {
            "group": [],
            "topic": [],
            "partition": [],
            "position": [],
            "target_topic": [],
            "target_position": pd.array([], "Int64"),
            "class": [],
        }
    )
    ready.done(
        procedure,
        TRANSLATE,
        digest="t" * 64,
        exact=0,
        positions=0,
        translation=procedure.artifacts.save("positions", frame),
    )
    ready.done(procedure, Step.REVIEW_TRANSLATION, asked=False)
    if step is Step.REDIRECT_CLIENTS:
        ready.done(procedure, OPEN)
    if gate is Step.APPROVE_DATA_LOSS:
        STEPS[step](task_id=step.value).act(procedure, ready.context())
        return
    with pytest.raises(ApprovalMissing, match="approve_data_loss"):
        STEPS[step](task_id=step.value).act(procedure, ready.context())
    assert denials(ready) and not ready.clusters["standby"].committed


def test_a_living_group_on_the_target_is_never_committed_to(ready: Any) -> None:
    """As in every run."""
    procedure = ready.procedure()
    frame = pd.DataFrame(
        [("billing", "orders", 0, 5, "orders", 4, "NEAREST")],
        columns=["group", "topic", "partition", "position", "target_topic", "target_position", "class"],
    )
    ready.done(
        procedure,
        TRANSLATE,
        digest="t" * 64,
        exact=1,
        positions=1,
        translation=procedure.artifacts.save("positions", frame),
    )
    ready.clusters["standby"].members["billing"] = 1
    with pytest.raises(Refusal, match="have members on the target"):
        CommitWithoutSource(task_id="commit_groups").act(procedure, ready.context())
    ready.clusters["standby"].members.clear()
    CommitWithoutSource(task_id="commit_groups").act(procedure, ready.context())
    assert ready.clusters["standby"].committed["billing"] == {T0: Position(4)}


def test_the_way_back_does_not_wait_for_a_source_that_was_given_up(lost: Any) -> None:
    """Nothing was changed on it: MirrorMaker 2 is resumed, the source disarmed, and the pair is free for another
    run.
    """
    lost.stopped_without_source(lost.procedure(), stops=("p.source", "p.checkpoint"))
    figures = execute(lost, Step.RETURN_TO_SOURCE)
    assert figures["touched"] is True and denials(lost)
    assert set(lost.workers["standby"].asked) == {("resume", "p.source"), ("resume", "p.checkpoint")}
    assert any("reopens_source" in e.payload for e in lost.entries(Step.RETURN_TO_SOURCE))
    with pytest.raises(AirflowFailException, match="This run returns to the source"):
        execute(lost, OPEN)


def test_the_return_resumes_no_connector_that_another_procedure_stopped(lost: Any) -> None:
    """An earlier failover moved clients to the target: the flow would copy stranded records into their topics."""
    lost.stopped_without_source(lost.procedure())
    figures = execute(lost, Step.RETURN_TO_SOURCE)
    assert figures["connectors_resumed"] == [] and not lost.workers["standby"].asked


def test_a_flow_into_the_cluster_where_clients_work_is_not_resumed(make_bench: Any) -> None:
    """Whatever this run asked to stop: an earlier procedure moved clients to its target, and clients have not left."""
    bench = make_bench(dag_id="unplanned_failover")
    moved = bench.lost("r0")
    bench.done(moved, Step.OPEN_TARGET)
    moved.journal.release_lease(moved.pair, moved.id, moved.lease.epoch, "completed")
    bench.stopped_without_source(bench.given_up(), stops=("p.source", "p.checkpoint"))
    figures = execute(bench, Step.RETURN_TO_SOURCE)
    assert figures["connectors_resumed"] == [] and not bench.workers["standby"].asked
    assert f"by the journal, clients work on standby since {moved.id}" in figures["replication_left_stopped"]


def test_the_way_back_says_why_mirror_maker_was_left_stopped(lost: Any) -> None:
    """Whether the other direction is stopped cannot be seen: both at once would copy records in a circle."""
    lost.stopped_without_source(lost.procedure(), stops=("p.source", "p.checkpoint"))
    lost.workers["primary"].away = True
    execute(lost, Step.RETURN_TO_SOURCE)
    figures = lost.entries(Step.RETURN_TO_SOURCE)[-1].payload
    assert figures["connectors_resumed"] == [] and "replication_left_stopped" in figures
    assert lost.workers["standby"].asked == []


def test_the_way_back_hardly_waits_for_the_worker_beside_a_dead_source(
    lost: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked whether the other direction stands; its silence is an answer, too."""
    lost.stopped_without_source(lost.procedure(), stops=("p.source", "p.checkpoint"))
    worker, limits = lost.workers["primary"], []
    for name in ("existing", "status"):
        monkeypatch.setattr(
            worker,
            name,
            lambda *asked, call=getattr(worker, name), **given: (
                limits.append(given.get("timeout")) or call(*asked, **given)
            ),
        )
    execute(lost, Step.RETURN_TO_SOURCE)
    assert limits == [5.0, 5.0]


def test_the_way_back_waits_for_a_source_on_which_something_was_changed(lost: Any) -> None:
    """Its fence was added while it answered: until that is lifted clients could not go back, and nothing is claimed."""
    procedure = lost.procedure()
    lost.stopped_without_source(procedure)
    procedure.authority.write(Step.FENCE_SOURCE, Entry.INTENT, {"adds_acl_entries": [vars(FENCE)]})
    lost.change_params(return_seconds=0.5)
    with pytest.raises(AirflowFailException, match="The rollback: not within.*asking primary failed"):
        execute(lost, Step.RETURN_TO_SOURCE)
    assert Entry.OUTCOME not in lost.kinds(Step.RETURN_TO_SOURCE)


def test_the_way_back_is_done_once_the_source_answers(lost: Any) -> None:
    """Cleared then, it goes on."""
    lost.stopped_without_source(lost.procedure())
    lost.clusters["primary"].away = False
    assert execute(lost, Step.RETURN_TO_SOURCE)["touched"] is True
