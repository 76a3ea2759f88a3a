"""What is left to undo, by the intents of a journal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.domain.kafka_model.acl import AclChange, AclEntry
from kafka_dr.procedure.entries import (
    AclEntriesToAdd,
    ChangedFlowToStop,
    ConnectorsToStop,
    Fact,
    FenceHookToAsk,
    GrantsToReplace,
    PositionsToCommit,
    ProcessesToStop,
    SettingsToChange,
    SourceReturned,
    SourceToReopen,
    TargetOpened,
    TargetToOpen,
    TopicsToCreate,
    TransactionsToAbort,
    TryBegun,
)
from kafka_dr.procedure.undo import (
    CloseTarget,
    LiftFenceHook,
    RemoveFence,
    RestoreSettings,
    ResumeReplication,
    changed_flow_to_undo,
    left_to_undo,
    undo_of,
)
from kafka_dr.vocabulary import Step

PARTS = ("east->west source", "east->west checkpoint")
FLOW = "east->west"


def denied(name: str) -> AclEntry:
    """An entry that keeps everybody from writing to a topic."""
    return AclEntry("topic", name, "literal", "User:*", "*", "write", "deny")


A, B, C, D = map(denied, "abcd")


def entry(step: Step, fact: Fact) -> Any:
    """A journal's entry of a fact."""
    return SimpleNamespace(step=step.value, kind=fact.kind.value, payload=fact.payload())


def tried(step: Step) -> Any:
    """A step began."""
    return entry(step, TryBegun(attempt=1))


def added(step: Step, *entries: AclEntry, cluster: str | None = "east") -> Any:
    """A step meant to add entries."""
    return entry(step, AclEntriesToAdd(adds_acl_entries=entries, cluster=cluster))


def replaced(*entries: AclEntry) -> Any:
    """The fence meant to remove entries for everyone."""
    return entry(Step.FENCE_PRODUCERS, GrantsToReplace(replaces_acl_entries=entries, cluster="east"))


def stops(step: Step, *names: str) -> Any:
    """A step meant to stop connectors."""
    return entry(step, ConnectorsToStop(stops_connectors=names))


FENCED = added(Step.FENCE_PRODUCERS, A, B)
HOOK = entry(Step.FENCE_SOURCE, FenceHookToAsk(asks_fence_hook="east"))
OPENING = entry(Step.OPEN_TARGET, TargetToOpen(removes_acl_entries=(C,), looked_at_entry=9))
REOPENING = entry(Step.RETURN_TO_SOURCE, SourceToReopen(reopens_source=True))
RETURNED = entry(Step.RETURN_TO_SOURCE, SourceReturned(touched=True))
BOTH = ResumeReplication(PARTS)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param([], [], id="nothing was begun"),
        pytest.param([tried(Step.FENCE_PRODUCERS)], [], id="a fence that added nothing"),
        pytest.param([FENCED], [RemoveFence(AclChange((A, B)), "east")], id="a fence"),
        pytest.param(
            [FENCED, added(Step.DRAIN_CONSUMERS, B, C)],
            [RemoveFence(AclChange((A, B, C)), "east")],
            id="each entry once",
        ),
        pytest.param(
            [added(Step.FENCE_PRODUCERS, A, cluster=None)],
            [RemoveFence(AclChange((A,)), "east")],
            id="no cluster named",
        ),
        pytest.param(
            [added(Step.FENCE_RETURNED_CLUSTER, A, cluster="west")], [], id="the returned cluster stays fenced"
        ),
        pytest.param(
            [added(Step.WATCH_OLD_SOURCE, A)], [RemoveFence(AclChange((A,)), "east")], id="the watcher's fence"
        ),
        pytest.param(
            [FENCED, replaced(C), added(Step.DRAIN_CONSUMERS, D)],
            [RemoveFence(AclChange((A, B, D), (C,)), "east")],
            id="a fence that replaced an ALLOW entry",
        ),
        pytest.param([HOOK, HOOK], [LiftFenceHook("east")], id="the fence hook"),
        pytest.param([tried(Step.STOP_MIRROR_MAKER)], [BOTH], id="a stop that named nothing"),
        pytest.param([stops(Step.STOP_MIRROR_MAKER, PARTS[1])], [BOTH], id="a stop of one connector"),
        pytest.param([stops(Step.WATCH_OLD_SOURCE, PARTS[0])], [BOTH], id="the watcher's stop"),
        pytest.param([stops(Step.WATCH_OLD_SOURCE, "west->east source")], [], id="the watcher stopped the other flow"),
        pytest.param([stops(Step.FENCE_RETURNED_CLUSTER, *PARTS)], [], id="a failback's stop stays"),
        pytest.param(
            [OPENING, HOOK, tried(Step.STOP_MIRROR_MAKER), FENCED, REOPENING],
            [CloseTarget(AclChange(removes=(C,))), RemoveFence(AclChange((A, B)), "east"), LiftFenceHook("east"), BOTH],
            id="clients first, MirrorMaker 2 last",
        ),
        pytest.param(
            [FENCED, OPENING, entry(Step.OPEN_TARGET, TargetOpened(opened_at="now"))], [], id="the target is open"
        ),
        pytest.param([FENCED, REOPENING, RETURNED], [], id="the source was given back"),
        pytest.param(
            [FENCED, RETURNED, added(Step.DRAIN_CONSUMERS, C)],
            [RemoveFence(AclChange((C,)), "east")],
            id="and fenced since",
        ),
        pytest.param(
            [
                entry(Step.COMMIT_GROUPS, TopicsToCreate(creates_topics=["orders"])),
                entry(Step.COMMIT_GROUPS, PositionsToCommit(positions=1, of=1)),
                entry(Step.FENCE_PRODUCERS, TransactionsToAbort(aborts_transactions=())),
            ],
            [],
            id="what cannot be undone",
        ),
    ],
)
def test_intents_leave_to_undo(entries: list[Any], expected: list[Any]) -> None:
    """In the order in which a return does it."""
    assert left_to_undo(entries, "east", PARTS, only_asked=False) == expected


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param([tried(Step.STOP_MIRROR_MAKER)], [], id="the planned run had stopped both"),
        pytest.param([stops(Step.STOP_MIRROR_MAKER, PARTS[1])], [ResumeReplication(PARTS[1:])], id="it stopped one"),
    ],
)
def test_a_run_without_its_source_resumes_only_what_it_stopped(entries: list[Any], expected: list[Any]) -> None:
    """The rest was stopped by another run: the planned run that it continues, or a failover that has moved clients."""
    assert left_to_undo(entries, "east", PARTS, only_asked=True) == expected


def test_a_flow_in_dedicated_mode_is_resumed_whole() -> None:
    """Its processes were stopped by the flow's name."""
    stopped = [entry(Step.STOP_MIRROR_MAKER, ProcessesToStop(stops_processes=FLOW))]
    assert left_to_undo(stopped, "east", (FLOW,), only_asked=True) == [ResumeReplication((FLOW,))]


@pytest.mark.parametrize(
    ("intent", "expected"),
    [
        (AclEntriesToAdd(adds_acl_entries=[A], cluster="east"), RemoveFence(AclChange((A,)), "east")),
        (
            GrantsToReplace(replaces_acl_entries=[A], cluster="east"),
            RemoveFence(AclChange(removes=(A,)), "east"),
        ),
        (
            TargetToOpen(removes_acl_entries=[C], adds_acl_entries=[B]),
            CloseTarget(AclChange((B,), (C,))),
        ),
        (TargetToOpen(removes_acl_entries=[C]), CloseTarget(AclChange(removes=(C,)))),
        (FenceHookToAsk(asks_fence_hook="east"), LiftFenceHook("east")),
        (ConnectorsToStop(stops_connectors=PARTS), ResumeReplication(PARTS)),
        (ProcessesToStop(stops_processes=FLOW), ResumeReplication((FLOW,))),
        (TopicsToCreate(creates_topics=["orders"]), None),
        (SourceToReopen(reopens_source=True), None),
    ],
)
def test_an_act_that_came_too_late_is_undone_by_its_intent(intent: Fact, expected: Any) -> None:
    """None where nothing undoes it."""
    assert undo_of(intent) == expected


def test_a_changed_flow_gets_the_values_from_before_the_first_change() -> None:
    """Also after a rollback that was killed in between; nothing is undone of a run that stopped nothing."""
    assert changed_flow_to_undo([tried(Step.PLAN_CHANGE)]) is None
    stopped = entry(Step.STOP_CHANGED_FLOW, ChangedFlowToStop(stops_connectors_to_change=PARTS))
    changed = SettingsToChange(changes_settings={"c": {"a": "2"}}, former_settings={"c": {"a": "1"}})
    back = SettingsToChange(changes_settings={"c": {"a": "1"}}, former_settings={"c": {"a": "2"}})
    entries = [stopped, entry(Step.CHANGE_CONNECTORS, changed), entry(Step.RETURN_TO_SOURCE, back)]
    assert changed_flow_to_undo(entries) == (RestoreSettings({"c": {"a": "1"}}), BOTH)
    assert undo_of(changed) == RestoreSettings({"c": {"a": "1"}})
    assert changed_flow_to_undo([stopped]) == (RestoreSettings({}), BOTH)
