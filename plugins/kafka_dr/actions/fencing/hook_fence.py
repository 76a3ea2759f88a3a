"""The fence hook: keep clients from a cluster from outside."""

from __future__ import annotations

from kafka_dr.errors import (
    HookUnavailable,
    ReadBackFailed,
)
from kafka_dr.procedure.authority import acting_under, record_fact
from kafka_dr.procedure.entries import (
    FenceHookAnswer,
    FenceHookToAsk,
)
from kafka_dr.procedure.run import Run


def ask_fence_hook(procedure: Run, step: str) -> FenceHookAnswer | None:
    """Ask the fence hook to keep clients from the source, and look whether it says so again; None without a hook."""
    hook, source = procedure.systems.fence_hook, procedure.request.source
    if hook is None:
        return None
    record_fact(procedure.authority, step, FenceHookToAsk(asks_fence_hook=source))
    try:
        with acting_under(procedure.authority, lambda: hook.unfence(procedure.id, source)):
            answer = hook.fence(procedure.id, source)
        return FenceHookAnswer(answer.fenced and hook.state(source).fenced, answer.by, answer.detail)
    except HookUnavailable as error:
        return FenceHookAnswer(False, "", error=str(error))


def asked_fence_hook(procedure: Run) -> bool:
    """Whether this procedure asked the fence hook to keep clients from the source, by its intents in the journal."""
    return bool(procedure.progress.facts(FenceHookToAsk))


def lift_fence_hook(procedure: Run) -> FenceHookAnswer | None:
    """Have the fence hook let clients in again where this procedure asked it to keep them out; None if it did not.

    Raises:
        HookUnavailable: it does not answer.
        ReadBackFailed: it still keeps them out.
    """
    hook, source = procedure.systems.fence_hook, procedure.request.source
    if hook is None or not asked_fence_hook(procedure):
        return None
    procedure.authority.hold()
    hook.unfence(procedure.id, source)
    answer = hook.state(source)
    if answer.fenced:
        raise ReadBackFailed(
            "The fence hook still keeps clients from the source",
            answer.by,
            "Clear return_to_source: it goes on from here.",
        )
    return FenceHookAnswer(**vars(answer))
