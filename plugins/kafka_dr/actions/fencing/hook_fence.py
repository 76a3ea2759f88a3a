"""Fence the source by the site's fence hook, which keeps clients away from a cluster (firewall, proxy, DNS)."""

from __future__ import annotations

from kafka_dr.errors import HookUnavailable, ReadBackFailed
from kafka_dr.procedure.authority import acting_under, record_fact
from kafka_dr.procedure.entries import FenceHookAnswer, FenceHookToAsk
from kafka_dr.procedure.run import Run


def ask_fence_hook(procedure: Run, step: str) -> FenceHookAnswer | None:
    """Ask the fence hook to fence the source, and read the hook's state back; return the hook's answer.

    None if the topology names no fence hook. If the hook does not answer, `fenced` is False and `error` has the reason.
    """
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
    """Whether this procedure asked, or meant to ask, the fence hook to fence the source, by intents in the journal."""
    return bool(procedure.progress.facts(FenceHookToAsk))


def lift_fence_hook(procedure: Run) -> FenceHookAnswer | None:
    """Have the fence hook lift the fence on the source that this procedure asked for; return the hook's new state.

    None if the topology names no fence hook, or if this procedure did not ask for a fence.

    Raises:
        HookUnavailable: the hook does not answer.
        ReadBackFailed: the hook still reports the source as fenced.
    """
    hook, source = procedure.systems.fence_hook, procedure.request.source
    if hook is None or not asked_fence_hook(procedure):
        return None
    procedure.authority.hold()
    hook.unfence(procedure.id, source)
    answer = hook.state(source)
    if answer.fenced:
        raise ReadBackFailed(
            "The fence hook still reports the source as fenced",
            f"{source} is fenced by: {answer.by}",
            f"The fence may still keep clients from {source}. Correct the cause that the log of the fence hook's server"
            f" states, or lift this fence on {source} manually; then clear return_to_source.",
        )
    return FenceHookAnswer(**vars(answer))
