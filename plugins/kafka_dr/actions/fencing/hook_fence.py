"""Fence the source by the site's fence hook, which keeps clients away from a cluster (firewall, proxy, DNS)."""

from __future__ import annotations

import time

from kafka_dr.actions.fencing.rules import READ_AGAIN_SECONDS
from kafka_dr.errors import FenceNotProven, HookUnavailable, ReadBackFailed
from kafka_dr.procedure.authority import acting_under, record_fact
from kafka_dr.procedure.entries import FenceHookAnswer, FenceHookToAsk, TargetToOpen
from kafka_dr.procedure.progress import NotYet
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.standing_fence import FENCING, hook_fence_stands


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


def fence_by_hook(procedure: Run, step: str) -> FenceHookAnswer | None:
    """Have a fence hook that spares MirrorMaker 2 fence the source, and wait until it reports the fence.

    None if the topology names no such hook.

    Raises:
        DeadlinePassed: the hook does not report the fence within `fence_seconds`.
    """
    hook, source = procedure.systems.planned_fence_hook, procedure.request.source
    if hook is None:
        return None
    asked = [ask_fence_hook(procedure, step)]

    def fenced() -> FenceHookAnswer:
        answer = asked.pop() if asked else FenceHookAnswer(**vars(hook.state(source)))
        if answer is None or not answer.fenced:
            raise NotYet(f"the fence hook reports no fence of {source}: {answer}")
        return answer

    return procedure.progress.wait(
        step, f"The fence hook's fence of {source}", fenced, procedure.request.deadlines.fence_seconds
    )


def refuse_lifted_hook(procedure: Run) -> None:
    """Refuse if this procedure asked the fence hook to fence the source, and the hook reports no fence any more."""
    hook, source = procedure.systems.fence_hook, procedure.request.source
    if hook is None or not asked_fence_hook(procedure):
        return
    answer = hook.state(source)
    if not answer.fenced:
        raise FenceNotProven(
            "The fence hook no longer fences the source",
            f"the hook's answer about {source}: {answer.by} {answer.detail}".rstrip(),
            "The procedure returns to the source by itself. Find out in the log of the fence hook's server who lifted"
            f" the fence of {source}; then start a new run.",
        )


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


def hook_fences_target(procedure: Run) -> bool:
    """Whether the target is behind a fence of the hook since clients left it, by the journal, and the hook says so.

    The hook is asked only if the journal has such a fence: a failover must not wait for a hook that it does not need.
    """
    hook, target = procedure.systems.planned_fence_hook, procedure.request.target
    stands = hook is not None and hook_fence_stands(procedure.journal.entries_of_steps(FENCING), target)
    return hook is not None and stands and hook.state(target).fenced


def meant_to_let_in(procedure: Run) -> bool:
    """Whether open_target meant to have the fence hook lift its fence of the target, by intents in the journal."""
    return any(intent.lifts_fence_hook for intent in procedure.progress.facts(TargetToOpen))


def let_clients_in(procedure: Run) -> None:
    """Have the fence hook lift its fence of the target, if open_target meant to.

    Raises:
        ReadBackFailed: the hook still reports the fence after `fence_seconds`.
    """
    hook, target = procedure.systems.planned_fence_hook, procedure.request.target
    if hook is None or not meant_to_let_in(procedure):
        return
    ends_at = time.monotonic() + procedure.request.deadlines.fence_seconds
    with acting_under(procedure.authority, lambda: hook.fence(procedure.id, target)):
        answer = hook.unfence(procedure.id, target)
    while answer.fenced and time.monotonic() < ends_at:
        time.sleep(READ_AGAIN_SECONDS)
        answer = hook.state(target)
    if answer.fenced:
        raise ReadBackFailed(
            "The fence hook still keeps clients from the target",
            f"{target} is fenced by: {answer.by}",
            f"Correct the cause that the log of the fence hook's server states. Wait for return_to_source, which fences"
            f" {target} again; then start a new run.",
        )


def keep_clients_out(procedure: Run) -> None:
    """Have the fence hook fence the target again if open_target meant to lift that fence.

    Raises:
        ReadBackFailed: the hook does not report the fence.
    """
    hook, target = procedure.systems.planned_fence_hook, procedure.request.target
    if hook is None or not meant_to_let_in(procedure):
        return
    answer = hook.fence(procedure.id, target)
    if not answer.fenced:
        raise ReadBackFailed(
            "The fence hook does not fence the target again",
            f"the hook's answer about {target}: {answer.by}",
            f"Clients may be able to write on {target}. Correct the cause that the log of the fence hook's server"
            " states; then clear return_to_source.",
        )
