"""The commands of a rollback: everything as it was before the procedure."""

from __future__ import annotations

import json
from shlex import quote

from kafka_dr.domain.manual.acl_commands import acl_commands
from kafka_dr.domain.manual.commands import READ_STOPPED, log_ends, post_to_hook, tell_application
from kafka_dr.domain.manual.context import ManualContext, ManualStep
from kafka_dr.vocabulary import Step


def rollback_commands(hand: ManualContext) -> list[ManualStep]:
    """The way back: clients first, for a worker that is away must not keep them from a source that works."""
    if Step.OPEN_TARGET in hand.done:
        return [
            ManualStep(
                Step.RETURN_TO_SOURCE, ("The target is open: there is only forward, or a failback later.",), ("exit 1",)
            )
        ]
    if (Step.FENCE_SOURCE if hand.given_up else Step.FENCE_PRODUCERS) not in hand.begun:
        return [ManualStep(Step.RETURN_TO_SOURCE, ("Nothing was touched: there is nothing to return.",))]
    told = [tell_application(hand, "resume")] if hand.drain else []
    commands = [
        *_close_target(hand),
        f"{hand.mark} returning",
        *acl_commands(hand.source, "remove", hand.added),
        *_let_in(hand),
        *told,
        *_resume(hand),
    ]
    says = (
        (
            "The fence is lifted exactly as it was laid, the applications are told, MirrorMaker 2 goes on. When "
            "Airflow is back, clear"
        ),
        "return_to_source: it looks at everything again, and closes the procedure.",
    )
    return [ManualStep(Step.RETURN_TO_SOURCE, (*says, *_back_to_what_was_given_up(hand)), tuple(commands))]


def _back_to_what_was_given_up(hand: ManualContext) -> list[str]:
    """What a person must know of the way back to a source that may be away."""
    if not hand.given_up:
        return []
    changed = (
        "Entries were added on the source: they can be removed only while it answers."
        if hand.added
        else "Nothing was added on the source: no command here needs it."
    )
    left = (
        "MirrorMaker 2 comes last: where a worker does not answer the script stops there, and it is left as it is."
        if hand.flow
        else "MirrorMaker 2 runs in dedicated mode: nothing here can start its processes."
    )
    return [
        changed,
        left,
        "From now on nobody fences the source any more when it comes back: it is its clients' again.",
    ]


def _let_in(hand: ManualContext) -> list[str]:
    """The fence hook's last word counts."""
    if not hand.fence_hook:
        return []
    body = json.dumps({"procedure_id": hand.procedure_id, "cluster": hand.source.alias})
    return [
        (
            f"{post_to_hook(f'{hand.fence_hook}/unfence', body)} || echo"
            f" {quote(f'the fence hook does not do it: have it let clients in to {hand.source.alias}')}"
        )
    ]


def _close_target(hand: ManualContext) -> list[str]:
    """Once the opening had begun, return is allowed only if nothing was written there: fence it again and look."""
    if Step.OPEN_TARGET not in hand.begun:
        return []
    return [
        *acl_commands(hand.target, "add", hand.removed),
        "sleep 5",
        log_ends(hand.target, "target_partitions.txt", "now.txt"),
        "diff boundary.txt now.txt",
    ]


def _resume(hand: ManualContext) -> list[str]:
    if hand.flow is None or not hand.stopped:
        return []
    loop = (
        [f"{hand.reverse.ask('GET', hand.reverse.source, '/status')} | grep -q {quote(READ_STOPPED)}"]
        if hand.reverse is not None and hand.loops
        else []
    )
    flow = hand.flow
    return [
        *loop,
        *(line for name in hand.stopped for line in (flow.ask("PUT", name, "/resume"), flow.until(name, "RUNNING"))),
    ]
