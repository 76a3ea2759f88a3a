"""What stands of all fences of a cluster, by the journal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.domain.kafka_model.acl import AclChange, AclEntry
from kafka_dr.procedure.entries import (
    AclEntriesToAdd,
    Fact,
    FenceHookToAsk,
    GrantsToReplace,
    ProcedureOpened,
    SourceReturned,
    TargetOpened,
)
from kafka_dr.procedure.standing_fence import hook_fence_stands, standing_fence
from kafka_dr.vocabulary import Step


def allowed(name: str) -> AclEntry:
    """An entry that lets everyone write."""
    return AclEntry("topic", name, "literal", "User:*", "*", "write", "allow")


A, B, C = map(allowed, "abc")


def entry(procedure: str, step: Step, fact: Fact) -> Any:
    """A journal's entry of a fact."""
    kind, payload = fact.kind.value, fact.payload()
    return SimpleNamespace(procedure_id=procedure, step=step.value, kind=kind, payload=payload, at=None)


def opens(procedure: str, source: str, target: str) -> Any:
    """A procedure moves clients."""
    fact = ProcedureOpened(
        source=source,
        target=target,
        dag_id="planned_failover",
        run_id=procedure,
        reason="r",
        triggered_at="now",
        request={},
    )
    return entry(procedure, Step.OPEN_PROCEDURE, fact)


def adds(procedure: str, *entries: AclEntry, cluster: str | None, step: Step = Step.FENCE_PRODUCERS) -> Any:
    """A fence adds entries."""
    return entry(procedure, step, AclEntriesToAdd(adds_acl_entries=entries, cluster=cluster))


def replaces(procedure: str, *entries: AclEntry, cluster: str) -> Any:
    """A fence replaces entries."""
    return entry(procedure, Step.FENCE_PRODUCERS, GrantsToReplace(replaces_acl_entries=entries, cluster=cluster))


def returned(procedure: str, touched: bool = True) -> Any:
    """The procedure was rolled back."""
    return entry(procedure, Step.RETURN_TO_SOURCE, SourceReturned(touched=touched))


def opened(procedure: str) -> Any:
    """Clients are on the procedure's target."""
    return entry(procedure, Step.OPEN_TARGET, TargetOpened(opened_at="now"))


THERE = [opens("p1", "east", "west"), adds("p1", A, cluster="east"), replaces("p1", B, cluster="east"), opened("p1")]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param([], AclChange(), id="no procedure ever ran"),
        pytest.param(THERE, AclChange((A,), (B,)), id="clients left behind a fence"),
        pytest.param(
            [*THERE, opens("p2", "west", "east"), adds("p2", C, cluster="east", step=Step.FENCE_RETURNED_CLUSTER)],
            AclChange((A, C), (B,)),
            id="a failback has fenced more",
        ),
        pytest.param(
            [*THERE, opens("p2", "west", "east"), opened("p2")], AclChange(), id="clients are back on the cluster"
        ),
        pytest.param(
            [*THERE, opens("p2", "west", "east"), adds("p2", C, cluster="west"), returned("p2")],
            AclChange((A,), (B,)),
            id="a rollback reverts its own fence only",
        ),
        pytest.param([*THERE[:3], returned("p1")], AclChange(), id="rolled back"),
        pytest.param([*THERE[:3], returned("p1", touched=False)], AclChange((A,), (B,)), id="nothing was rolled back"),
        pytest.param(
            [opens("p1", "east", "west"), adds("p1", A, cluster=None)],
            AclChange((A,)),
            id="no cluster named",
        ),
        pytest.param(
            [
                opens("p1", "east", "west"),
                entry(
                    "watch_old_source",
                    Step.WATCH_OLD_SOURCE,
                    AclEntriesToAdd(adds_acl_entries=[A], cluster="east", procedure_id="p1"),
                ),
                returned("p1"),
            ],
            AclChange(),
            id="what the watcher added for a procedure is reverted with it",
        ),
    ],
)
def test_what_stands_of_a_clusters_fences(entries: list[Any], expected: AclChange) -> None:
    """Until the cluster is opened again, or the procedure that fenced it is rolled back."""
    assert standing_fence(entries, "east") == expected


def asks(procedure: str, cluster: str) -> Any:
    """The fence hook is asked to fence a cluster."""
    return entry(procedure, Step.FENCE_PRODUCERS, FenceHookToAsk(asks_fence_hook=cluster))


BEHIND_HOOK = (opens("p", "east", "west"), asks("p", "east"), opened("p"))


@pytest.mark.parametrize(
    ("entries", "stands"),
    [
        ((), False),
        (BEHIND_HOOK, True),
        ((*BEHIND_HOOK, opens("q", "west", "east"), opened("q")), False),
        ((opens("p", "east", "west"), asks("p", "east"), returned("p")), False),
        ((opens("p", "east", "west"), asks("p", "east"), returned("p", touched=False)), True),
        ((*BEHIND_HOOK, opens("q", "west", "east"), asks("q", "west"), returned("q")), True),
    ],
)
def test_a_fence_of_the_hook_stands_until_clients_are_let_in_again(entries: tuple[Any, ...], stands: bool) -> None:
    """By the opening of a later move to the cluster, or by the return of the procedure that asked for it."""
    assert hook_fence_stands(entries, "east") is stands
    assert not hook_fence_stands(entries, "north")
