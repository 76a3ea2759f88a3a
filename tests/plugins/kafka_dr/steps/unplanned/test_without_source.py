"""The steps of a run whose source was given up: nothing of it is asked, and nothing goes on while the target
still moves.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from kafka_dr.commands.verify_evidence import receipts
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.recorder_rows import Kind
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import ApprovalMissing, ConnectUnavailable, DeadlinePassed, Refusal
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.steps.shared.review_translation import ReviewTranslation
from kafka_dr.actions.loss.assessment import AssessDataLoss
from kafka_dr.actions.clients import RedirectClients, VerifyClients
from kafka_dr.actions.scope.position_frames import frame_partitions
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.actions.recheck import refuse_if_changed
from kafka_dr.actions.offsets.early_translation import trusted_pairs
from kafka_dr.steps.unplanned.without_source import (
    CommitWithoutSource,
    OpenWithoutSource,
    StopLeftMirrorMaker,
    TranslateWithoutSource,
)
from kafka_dr.vocabulary import Entry, Step
from kafka_dr_spark.contract import input as sources

from tests.support.lost_source import Recorder, held, seen
from tests.support.bench import FENCE
from tests.support.facts import asked_by, figures_of

STOP, TRANSLATE, OPEN = Step.STOP_MIRROR_MAKER, Step.TRANSLATE_OFFSETS, Step.OPEN_TARGET
T0 = TopicPartition("orders", 0)
DEFAULT = {"policy": "default", "separator": "."}
DEDICATED = {
    "source": "primary",
    "target": "standby",
    "stop_hook": "hook",
    "connectors": {"source": "p.source", "checkpoint": "p.checkpoint"},
}
FLOW = "primary->standby"
STEPS = {
    STOP: StopLeftMirrorMaker,
    TRANSLATE: TranslateWithoutSource,
    Step.COMMIT_GROUPS: CommitWithoutSource,
    OPEN: OpenWithoutSource,
    Step.REDIRECT_CLIENTS: RedirectClients,
    Step.VERIFY_CLIENTS: VerifyClients,
    Step.RETURN_TO_SOURCE: ReturnToSource,
}


def execute(bench: Any, step: Step, attempt: int = 1) -> dict[str, Any]:
    """Execute a step and return its newest entry."""
    STEPS[step](task_id=step.value).execute(bench.context(attempt=attempt))
    return bench.entries(step)[-1].payload


def act(bench: Any, step: Step) -> Any:
    """What a step does when it is begun, whether or not it was done before."""
    return STEPS[step](task_id=step.value).act(bench.procedure(), bench.context())


@pytest.fixture
def lost(make_bench: Any) -> Any:
    """An unplanned run whose source is armed."""
    bench = make_bench(dag_id="unplanned_failover")
    bench.given_up()
    return bench


@pytest.fixture
def ready(make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An unplanned run that is about to open its target; of its source not even a client can be made."""
    bench = make_bench(dag_id="unplanned_failover")
    bench.stopped_without_source(bench.given_up(groups=("billing",), active=("billing",)))
    monkeypatch.delitem(bench.clusters, "primary")
    return bench


def denials(bench: Any) -> set[AclEntry]:
    """The denials on the target."""
    return {e for e in bench.clusters["standby"].acls if e.permission == "deny"}


# -- stop_mirror_maker
# ---------------------------------------------------------------------------------------------------


def boundary(bench: Any) -> dict[TopicPartition, int]:
    """The boundary that was written."""
    procedure = bench.procedure()
    return frame_partitions(procedure.artifacts.load(figures_of(procedure, STOP)["boundary"]), "offset")


def moving(bench: Any, monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    """The target's log grows at each of so many looks."""
    target, number, ends = bench.clusters["standby"], itertools.count(1), bench.clusters["standby"].ends

    def grown(partitions: Any, **kwargs: Any) -> dict[TopicPartition, int]:
        target.log_ends[T0] += next(number) <= looks
        return ends(partitions, **kwargs)

    monkeypatch.setattr(target, "ends", grown)


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
            raise ConnectUnavailable("Connect did not do PUT", "HTTP 409")

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
    with pytest.raises(AirflowFailException, match="something still writes to the target: orders-0"):
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


def assessed(
    make_lost: Any, remote: str = "orders", meanwhile: Callable[[Any], None] | None = None, **topology: Any
) -> Any:
    """A run with a real inventory, approved; MirrorMaker 2 stands, the target ends at 80.

    Args:
        meanwhile: what happens after the assessment.
    """
    bench = make_lost(**topology)
    at = TopicPartition(remote, 0)
    bench.clusters["standby"].partitions[remote] = {0: 1}
    bench.clusters["standby"].log_ends[at] = 80
    bench.clusters["standby"].records[at] = {offset: f"{offset}" for offset in range(80)}
    AssessDataLoss(task_id=Step.ASSESS_DATA_LOSS.value).execute(bench.context())
    procedure = bench.procedure()
    bench.api.answer(Step.APPROVE_DATA_LOSS, f"Plan {figures_of(procedure, Step.ASSESS_DATA_LOSS)['plan_digest']}")
    bench.done(procedure, Step.APPROVE_DATA_LOSS, asked=True)
    bench.done(procedure, Step.FENCE_SOURCE, fenced="armed")
    if meanwhile:
        meanwhile(bench)
    execute(bench, STOP)
    return bench


def recorded(recorder: Recorder, remote: str = "orders") -> None:
    """Two samples, a sync before them and one covered by them, and a pair by content."""
    syncs = [
        (Kind.SYNC, {"topic": "orders", "partition": 0, "upstream": u, "downstream": d, "sequence": s})
        for s, (u, d) in enumerate(((20, 20), (69, 75)))
    ]
    pair = (
        Kind.PAIR,
        {"topic": "orders", "partition": 0, "upstream": 55, "downstream": 55, "source_end": 100, "records": 44},
    )
    recorder.sample(seen(50, 40, remote=remote, replicated=39))
    recorder.sample(
        seen(100, 70, remote=remote, replicated=58),
        held("at 90", 90),
        held("at 30", 30),
        held("at 60", 60),
        *syncs,
        pair,
        groups_read="whole",
    )


@pytest.mark.parametrize("naming", [{"policy": "identity"}, DEFAULT])
def test_positions_come_from_what_was_recorded_and_the_target_alone(
    make_lost: Any, recorder: Recorder, naming: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never ahead: behind the first copy of the pair below, or at the floor; the source is not read, nor known."""
    remote = "orders" if naming != DEFAULT else "primary.orders"
    recorded(recorder, remote)
    bench = assessed(make_lost, remote, naming=naming)
    monkeypatch.delitem(bench.clusters, "primary")
    told = execute(bench, TRANSLATE)
    rows = bench.procedure().artifacts.load(told["translation"]).set_index("group")
    assert rows["target_position"].to_dict() == {"at 30": 30, "at 60": 56, "at 90": 56}
    assert set(rows["target_topic"]) == {remote}
    assert (rows["target_position"] <= rows["position"]).all() and set(rows["class"]) == {"NEAREST"}
    assert (told["positions"], told["records_read"]["source"]) == (3, 0)


def test_after_a_failback_nothing_is_counted_below_the_first_sample(make_lost: Any, recorder: Recorder) -> None:
    """Clients wrote on the target, and of that some may never have come back to the source; with the assessment and
    in its own step.
    """
    recorder.sample(seen(20, 20), flows_back=True)
    recorder.sample(flows_back=False)
    recorded(recorder)
    bench = assessed(make_lost)
    positions = [
        bench.procedure()
        .artifacts.load(execute(bench, TRANSLATE)["translation"])
        .set_index("group")["target_position"]["at 30"]
    ]
    bench.clusters["standby"].log_starts[T0] = 1
    procedure = bench.procedure()
    procedure.lease.take_new_epoch()
    again = TranslateWithoutSource(task_id=TRANSLATE.value).act(procedure, bench.context(attempt=2))
    found = [json.loads((folder / "job.json").read_text())["only_mirrored"] for folder in bench.jobs.given[1:]]
    assert found == [False, False]
    assert positions == [21] and again.made_by == TRANSLATE.value


def test_a_group_that_lived_may_read_all_that_the_target_holds_again(make_lost: Any, recorder: Recorder) -> None:
    """It went on after it was seen; one that stood still has a bound of its own, whatever its lag. The review says
    both.
    """
    recorded(recorder)
    recorder.sample(
        *((Kind.GROUP, {"group": f"at {p}", "members": int(p == 30), "state": "Stable"}) for p in (30, 60, 90)),
        groups_read="changed",
    )
    bench = assessed(make_lost)
    told = execute(bench, TRANSLATE)
    rows = bench.procedure().artifacts.load(told["translation"]).set_index("group")
    assert rows["bound"].to_dict() == {"at 30": 50, "at 60": 15, "at 90": 24} and not rows["exact"].any()
    assert (told["may_have_moved"], told["bound"]) == (1, 50)
    body = asked_by(ReviewTranslation(task_id="review_translation"), bench.procedure())[1]
    assert "Records that one position reads again: at most 50. 1 positions are of groups that may have gone on" in body


def test_without_groups_and_syncs_there_is_nothing_to_translate(make_lost: Any) -> None:
    """No row, no digest of one that is not there, and no review."""
    bench = assessed(make_lost, recorded=False)
    told = execute(bench, TRANSLATE)
    assert (told["positions"], told["exact"], told["classes"], told["bound"]) == (0, 0, {}, None)
    assert asked_by(ReviewTranslation(task_id="review_translation"), bench.procedure()) is None


def test_what_was_translated_with_the_assessment_is_not_translated_again(make_lost: Any, recorder: Recorder) -> None:
    """Spark is not started; another try finds the same."""
    recorded(recorder)
    bench = assessed(make_lost)
    first, procedure, made = execute(bench, TRANSLATE), bench.procedure(), len(bench.jobs.given)
    procedure.lease.take_new_epoch()
    second = TranslateWithoutSource(task_id=TRANSLATE.value).act(procedure, bench.context(attempt=2))
    assert first["digest"] == second.digest and first["records_read"]["target"] > 0
    assert [folder.name for folder in bench.jobs.given] == ["assess_data_loss-2.input", "translate_offsets"]
    assert made == 2


def test_what_was_translated_with_the_assessment_is_verified_with_the_evidence(
    make_lost: Any, recorder: Recorder
) -> None:
    """Its file is one that a step names."""
    recorded(recorder)
    figures = figures_of(assessed(make_lost).procedure(), Step.ASSESS_DATA_LOSS)
    files = [receipt["file"] for receipt in receipts({"steps": [{"figures": figures, "notes": []}]})]
    assert [name for name in files if name.startswith("translated_ahead-")] == [figures["translated_ahead"]["file"]]


def test_a_target_that_took_more_since_is_translated_anew(
    make_lost: Any, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In folders of its own, by another try, too; the rows are those of the target as it is now."""
    recorded(recorder)
    monkeypatch.setattr("kafka_dr.actions.offsets.early_translation.MOST_POSITIONS", 3)
    bench = assessed(make_lost, meanwhile=lambda bench: bench.clusters["standby"].log_ends.update({T0: 79}))
    first, procedure = execute(bench, TRANSLATE), bench.procedure()
    procedure.lease.take_new_epoch()
    second = TranslateWithoutSource(task_id=TRANSLATE.value).act(procedure, bench.context(attempt=2))
    assert first["digest"] == second.digest and len(set(bench.jobs.given)) == 4
    assert pd.read_parquet(bench.jobs.given[-1] / "bounds.parquet")["boundary"].tolist() == [79]


def test_too_many_positions_do_not_keep_the_loss_waiting(
    make_lost: Any, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are translated when it was approved."""
    recorded(recorder)
    monkeypatch.setattr("kafka_dr.actions.offsets.early_translation.MOST_POSITIONS", 2)
    bench = assessed(make_lost)
    assert len(bench.jobs.given) == 1 and execute(bench, TRANSLATE)["positions"] == 3 and len(bench.jobs.given) == 2


def test_reading_that_takes_long_does_not_keep_the_loss_waiting(make_lost: Any, recorder: Recorder) -> None:
    """A million records of each partition may have to be read: after a minute that is left to the step itself."""
    recorded(recorder)
    bench = assessed(make_lost, meanwhile=lambda bench: bench.clusters["standby"].log_ends.update({T0: 79}))
    execute(bench, TRANSLATE)
    _, ahead, itself = (sources.load_limits(folder, None, None).deadline_seconds for folder in bench.jobs.given)
    assert (ahead, itself) == (60, 600)


def test_retention_goes_on_while_people_decide(make_lost: Any, recorder: Recorder) -> None:
    """No group is sent below the beginning of the log as it is now: it would begin wherever its own settings say."""
    recorded(recorder)
    bench = assessed(make_lost)
    bench.clusters["standby"].log_starts[T0] = 60
    rows = bench.procedure().artifacts.load(execute(bench, TRANSLATE)["translation"])
    assert rows["target_position"].min() == 60 and len(bench.jobs.given) == 3


def test_the_review_is_waited_for_though_no_fence_lasts(lost: Any) -> None:
    """The source may never be fenced: there is no clock that could run out."""
    lost.stopped_without_source(lost.procedure())
    assert ReviewTranslation(task_id="review_translation").wait_seconds(lost.procedure()) == 14400


def frame(rows: list[tuple], *names: str) -> pd.DataFrame:
    """Rows of orders-0."""
    return pd.DataFrame([("orders", 0, *row) for row in rows], columns=["topic", "partition", *names]).astype(
        {"partition": "int32", **dict.fromkeys(names, "Int64")}
    )


def test_syncs_that_samples_cover_are_not_trusted() -> None:
    """Only those below the first sample's end of the target; pairs by content follow, in the order of the log."""
    floors = frame([(50, 40, 1), (100, 70, 2)], "source_end", "target_end", "sampled_at")
    syncs = frame([(41, 40, 9), (20, 20, 7), (10, 10, 3)], "upstream", "downstream", "sequence")
    pairs = frame([(66, 60, 2), (55, 50, 1)], "upstream", "downstream", "sampled_at")
    found = trusted_pairs(syncs, pairs, floors)
    result = found[["upstream", "downstream", "sequence"]].values.tolist()
    assert result == [[10, 10, 0], [20, 20, 1], [55, 50, 2], [66, 60, 3]]
    assert trusted_pairs(syncs, pairs[:0], floors[:0])["sequence"].tolist() == [0, 1, 2]


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


def test_the_target_opens_without_the_source(ready: Any) -> None:
    """The denials of the plan go; what shows that no position changed is said."""
    told = execute(ready, OPEN)
    assert denials(ready) == set() and ready.kinds(OPEN) == [Entry.INTENT, Entry.OUTCOME]
    found = (told["acl_entries_removed"], told["positions_unchanged"], told["canary"]["offset"])
    assert found == (1, "the source was given up", 0)


def test_opening_twice_is_opening_once(ready: Any) -> None:
    """A second copy of the task changes nothing."""
    execute(ready, OPEN)
    execute(ready, OPEN)
    assert ready.kinds(OPEN) == [Entry.INTENT, Entry.OUTCOME]


UNPLANNED = AclEntry("topic", "orders", "literal", "User:app", "*", "write", "deny")
CHANGES = {
    "a group came alive": (lambda b: b.clusters["standby"].members.update(billing=1), "came alive on standby.*billing"),
    "somebody wrote on the target": (lambda b: b.clusters["standby"].log_ends.update({T0: 11}), "wrote on the target"),
    "the source connector runs again": (
        lambda b: b.workers["standby"].states.update({"p.source": "RUNNING"}),
        "p.source runs again",
    ),
    "the checkpoint connector runs again": (
        lambda b: b.workers["standby"].states.update({"p.checkpoint": "RUNNING"}),
        "p.checkpoint runs again",
    ),
    "a denial that nobody approved": (lambda b: b.clusters["standby"].acls.add(UNPLANNED), "after the forecast"),
    "the approval is gone": (lambda b: b.api.answers.clear(), "approve_data_loss was never answered"),
    "the approval is the starter's": (lambda b: setattr(b.api, "starter", "bob"), "bob started the run"),
    "the approval is of another plan": (
        lambda b: b.api.answer(Step.APPROVE_DATA_LOSS, "Lose this? Plan " + "0" * 64),
        "does not name digest",
    ),
    "nobody watches for the old source": (lambda b: b.no_watcher(), "Nobody watches for the old source"),
    "the way back has begun": (
        lambda b: b.procedure().authority.write(Step.RETURN_TO_SOURCE, Entry.INTENT, {"reopens_source": True}),
        "being given back",
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
            raise ConnectUnavailable("Connect did not do GET", "no such connector")
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
    bench.topology.write_text(
        bench.topology.read_text().replace('"stable_seconds"', f'"stop_seconds": {seconds}, "stable_seconds"')
    )


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
    with pytest.raises(AirflowFailException, match="wrote on the target before it was opened"):
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
        "kafka_dr.actions.offsets.commit.CommitGroups.act", lambda *_: asked.append(worker.states["p.checkpoint"]) or {}
    )
    monkeypatch.setattr(
        "kafka_dr.steps.unplanned.without_source.require_reviewed", lambda *_: asked.append(worker.states["p.checkpoint"])
    )
    act(ready, step)
    assert asked == ["STOPPED"]


@pytest.mark.parametrize(("step", "asked_before"), [(Step.COMMIT_GROUPS, 0.6), (OPEN, 0.0)])
def test_a_checkpoint_connector_that_does_not_stop_ends_the_run(ready: Any, step: Step, asked_before: float) -> None:
    """Nothing is committed, nobody is let in."""
    stopping(ready, "p.checkpoint")
    stop_seconds(ready, 0.6)
    time.sleep(asked_before)
    with pytest.raises(DeadlinePassed, match="p.checkpoint does not stand still 1 s after it was asked to stop"):
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
    refuse_if_changed(ready.procedure())
    stop_seconds(ready, 0.1)
    time.sleep(0.2)
    with pytest.raises(Refusal, match="p.source runs again"):
        refuse_if_changed(ready.procedure())


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
    monkeypatch.setattr("kafka_dr.actions.offsets.commit.CommitGroups.act", lambda *_: reached.append(next(looks)) or {})
    monkeypatch.setattr("kafka_dr.steps.unplanned.without_source.require_reviewed", lambda *_: reached.append(next(looks)))
    act(dedicated, step)
    assert reached and reached[0] > 3


@pytest.mark.parametrize(("step", "asked_before"), [(Step.COMMIT_GROUPS, 0.6), (OPEN, 0.0)])
def test_a_dedicated_process_that_does_not_end_ends_the_run(dedicated: Any, step: Step, asked_before: float) -> None:
    """Nothing is committed, nobody is let in."""
    dedicated.procedure().authority.write(STOP, Entry.INTENT, {"stops_processes": FLOW})
    stop_seconds(dedicated, 0.6)
    time.sleep(asked_before)
    with pytest.raises(DeadlinePassed, match=f"{FLOW} does not stand still 1 s after it was asked to stop"):
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
    lost.stopped_without_source(lost.procedure())
    figures = execute(lost, Step.RETURN_TO_SOURCE)
    assert figures["touched"] is True and denials(lost)
    assert set(lost.workers["standby"].asked) == {("resume", "p.source"), ("resume", "p.checkpoint")}
    assert any("reopens_source" in e.payload for e in lost.entries(Step.RETURN_TO_SOURCE))
    with pytest.raises(AirflowFailException, match="being given back"):
        execute(lost, OPEN)


def test_the_way_back_says_why_mirror_maker_was_left_stopped(lost: Any) -> None:
    """Whether the other direction is stopped cannot be seen: both at once would copy records in a circle."""
    lost.stopped_without_source(lost.procedure())
    lost.workers["primary"].away = True
    execute(lost, Step.RETURN_TO_SOURCE)
    figures = lost.entries(Step.RETURN_TO_SOURCE)[-1].payload
    assert figures["connectors_resumed"] == [] and "replication_left_stopped" in figures
    assert lost.workers["standby"].asked == []


def test_the_way_back_hardly_waits_for_the_worker_beside_a_dead_source(
    lost: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked whether the other direction stands; its silence is an answer, too."""
    lost.stopped_without_source(lost.procedure())
    worker, limits = lost.workers["primary"], []
    for name in ("connectors", "status"):
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
    lost.topology.write_text(
        lost.topology.read_text().replace('"stable_seconds"', '"return_seconds": 0.5, "stable_seconds"')
    )
    with pytest.raises(AirflowFailException, match="Everything as it was found: not within.*asking primary failed"):
        execute(lost, Step.RETURN_TO_SOURCE)
    assert Entry.OUTCOME not in lost.kinds(Step.RETURN_TO_SOURCE)


def test_the_way_back_is_done_once_the_source_answers(lost: Any) -> None:
    """Cleared then, it goes on."""
    lost.stopped_without_source(lost.procedure())
    lost.clusters["primary"].away = False
    assert execute(lost, Step.RETURN_TO_SOURCE)["touched"] is True
