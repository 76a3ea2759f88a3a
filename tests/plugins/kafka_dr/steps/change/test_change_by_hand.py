"""change_replication of a flow without a Connect worker: a person edits, and the run waits for what the hook says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kafka_dr.config.topology import Flow
from kafka_dr.errors import Contradiction, DeadlinePassed, Refusal
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.procedure import progress

from tests.plugins.kafka_dr.steps.change.test_change_replication import CHECKPOINT, SOURCE, A, Change
from tests.support.fake_systems import FakeSystems


@pytest.fixture
def change(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Change:
    """A flow whose hook stops and starts it, and reports the settings of the file."""
    topology = json.loads(bench.topology.read_text())
    flow = next(flow for flow in topology["flows"] if flow["source"] == "primary")
    flow["stop_hook"] = "hook"
    del flow["connect"]
    bench.topology.write_text(json.dumps(topology))
    made = Change(bench)
    of_file = {**made.worker.configs[SOURCE], **made.worker.configs[CHECKPOINT]}
    made.worker.configs = {SOURCE: dict(of_file), CHECKPOINT: dict(of_file)}

    def by_hook(systems: FakeSystems, of_flow: Flow) -> FlowConnectors:
        return FlowConnectors(of_flow, systems.topology.names, made.worker)

    monkeypatch.setattr(FakeSystems, "_by_hook", by_hook)
    monkeypatch.setattr(progress, "_LOOK_AGAIN_SECONDS", 0.01)
    return made


def edit(change: Change, key: str, value: str) -> None:
    """A person edits the settings of both connectors, which stand in one file."""
    for name in (SOURCE, CHECKPOINT):
        change.worker.configs[name][key] = value


def test_the_run_waits_for_the_edit_and_says_what_to_edit(change: Change) -> None:
    """It sets nothing itself; each topic with a record to copy has copied one."""
    change.write(A, 5)
    change.plan(remove_topics=r"extra\..*", approval_wait_seconds=1)
    assert "A person edits these settings" in change.approve()
    change.stop()
    with pytest.raises(DeadlinePassed, match="The settings that a person edits") as told:
        change.change()
    assert r"set topics.exclude = __.*,connect-.*,extra\..*" in told.value.seen
    edit(change, "topics.exclude", r"__.*,connect-.*,extra\..*")
    change.change()
    assert ("change", SOURCE) not in change.worker.asked


def test_a_rollback_waits_for_the_former_settings(change: Change) -> None:
    """Until then the flow stays stopped; a file that nobody edited needs no edit."""
    change.plan(settings={"offset.lag.max": "7"}, approval_wait_seconds=1, return_seconds=1)
    change.approve()
    change.stop()
    edit(change, "offset.lag.max", "7")
    change.change()
    with pytest.raises(DeadlinePassed) as told:
        change.give_back()
    assert "remove offset.lag.max" in told.value.seen
    assert set(change.worker.states.values()) == {"STOPPED"}
    for name in (SOURCE, CHECKPOINT):
        del change.worker.configs[name]["offset.lag.max"]
    assert change.give_back().settings_restored
    assert set(change.worker.states.values()) == {"RUNNING"}


def test_an_edit_before_the_stop_is_refused(change: Change) -> None:
    """A process that starts anew meanwhile would copy from offsets that nobody looked at."""
    change.plan(settings={"offset.lag.max": "7"})
    change.approve()
    edit(change, "offset.lag.max", "7")
    with pytest.raises(Contradiction, match="was changed after the plan was made"):
        change.stop()
    assert "STOPPED" not in change.worker.states.values()


def test_an_edit_of_more_than_was_approved_is_refused(change: Change) -> None:
    """All connectors read one file: the planned edit shows in each, and nothing else may."""
    change.plan(remove_topics=r"extra\..*")
    change.approve()
    change.stop()
    edit(change, "topics.exclude", r"__.*,connect-.*,extra\..*")
    edit(change, "offset.lag.max", "7")
    with pytest.raises(Contradiction, match="was changed after the plan was made"):
        change.change()


def test_a_start_while_a_rollback_waits_is_stopped_again(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rollback begins again with the stop."""
    change.plan(settings={"offset.lag.max": "7"})
    change.approve()
    change.stop()
    edit(change, "offset.lag.max", "7")
    change.change()
    looked = FlowConnectors.topic_filter
    starts = iter([True])

    def meanwhile(self: FlowConnectors, *args: Any) -> Any:
        if change.worker.states[SOURCE] == "STOPPED" and next(starts, False):
            change.worker.states[SOURCE] = "RUNNING"
            for name in (SOURCE, CHECKPOINT):
                del change.worker.configs[name]["offset.lag.max"]
        return looked(self, *args)

    monkeypatch.setattr(FlowConnectors, "topic_filter", meanwhile)
    assert change.give_back().settings_restored
    assert set(change.worker.states.values()) == {"RUNNING"}


@pytest.mark.parametrize(
    ("method", "answer", "words"),
    [
        ("can_resume", False, "its stop hook does not start it"),
        ("offsets_problem", "no member", "no member"),
        ("with_kept_settings", None, "lacks `settings`"),
    ],
)
def test_a_hook_that_does_not_suffice_is_refused(
    change: Change, monkeypatch: pytest.MonkeyPatch, method: str, answer: Any, words: str
) -> None:
    """Before anything is asked of it."""
    monkeypatch.setattr(FlowConnectors, method, lambda self: answer)
    with pytest.raises(Refusal, match="runs without a Connect worker, and its stop hook does not suffice") as told:
        change.plan(settings={"tasks.max": "2"})
    assert words in told.value.seen and change.worker.asked == []
