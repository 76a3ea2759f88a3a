"""A rollback as shell commands: the source is open to its clients again, and MirrorMaker 2 runs."""

from __future__ import annotations

import json
from shlex import quote

from kafka_dr.domain.manual.acl_commands import change_commands
from kafka_dr.domain.manual.commands import ask_hook, log_ends, post_to_hook, require_stopped, tell_application
from kafka_dr.domain.manual.context import ManualContext, ManualStep
from kafka_dr.vocabulary import Step


def rollback_commands(context: ManualContext) -> list[ManualStep]:
    """Return the rollback as one step.

    The step has no commands if the run has not fenced clients. If open_target is done, the only command is `exit 1`.

    MirrorMaker 2 is resumed last, because a Connect worker that does not answer must not keep clients from the source.
    """
    if Step.OPEN_TARGET in context.done:
        return [
            ManualStep(
                Step.RETURN_TO_SOURCE,
                ("The target is open: continue with to_go_on.sh, or run failback later.",),
                ("exit 1",),
            )
        ]
    if (Step.FENCE_SOURCE if context.given_up else Step.FENCE_PRODUCERS) not in context.begun_steps:
        return [ManualStep(Step.RETURN_TO_SOURCE, ("This run has not fenced clients: nothing is to be undone.",))]
    resume_request = [tell_application(context, "resume")] if context.drain else []
    commands = [
        *_close_target(context),
        f"{context.mark} returning",
        *change_commands(context.source, context.fence_made.undo),
        *_lift_fence_hook(context),
        *resume_request,
        *_resume_mirror_maker(context),
    ]
    says = (
        (
            "These commands revert exactly what the run changed in the source's ACL entries, ask the applications to"
            " resume if the topology has a drain hook, and resume MirrorMaker 2 if the run stopped MirrorMaker 2."
        ),
        (
            "When Airflow runs again, clear return_to_source with its downstream tasks, which check the return and"
            " close the procedure."
        ),
    )
    return [ManualStep(Step.RETURN_TO_SOURCE, (*says, *_lost_source_remarks(context)), tuple(commands))]


def _lost_source_remarks(context: ManualContext) -> list[str]:
    """Return remarks on a rollback to a source that was declared lost and may not answer; empty for another source."""
    if not context.given_up:
        return []
    on_source = (
        "The run changed ACL entries on the source: the change can be reverted only while the source answers."
        if context.fence_made
        else "The run changed no ACL entry on the source: no command here needs the source."
    )
    on_mirror_maker = (
        "MirrorMaker 2 is resumed last: if a Connect worker does not answer, the script stops."
        if context.flow
        else "MirrorMaker 2 runs in dedicated mode: no command here starts its processes. Start them yourself."
    )
    return [
        on_source,
        on_mirror_maker,
        (
            "From now on watch_old_source does not fence the source when the source answers again: clients may use the"
            " source."
        ),
    ]


def _lift_fence_hook(context: ManualContext) -> list[str]:
    """Return the command that asks the fence hook to let clients reach the source; [] if the hook was never asked."""
    if not context.fence_hook:
        return []
    body = json.dumps({"procedure_id": context.procedure_id, "cluster": context.source.alias})
    return [
        (
            f"{post_to_hook(f'{context.fence_hook}/unfence', body)} || echo"
            f" {quote(f'the fence hook refused or did not answer: let clients reach {context.source.alias} yourself')}"
        )
    ]


def _close_target(context: ManualContext) -> list[str]:
    """Return commands that fence the target again and compare its log ends with the boundary; [] before open_target."""
    if Step.OPEN_TARGET not in context.begun_steps:
        return []
    return [
        *([ask_hook(context, "fence", context.target.alias)] if context.hook_fences_target else []),
        *change_commands(context.target, context.opening_made.undo),
        "sleep 5",
        log_ends(context.target, "target_partitions.txt", "now.txt"),
        "diff boundary.txt now.txt",
    ]


def _resume_mirror_maker(context: ManualContext) -> list[str]:
    if context.flow is None or not context.stopped:
        return []
    loop_check = require_stopped(context.reverse) if context.reverse is not None and context.loops else []
    flow = context.flow
    return [
        *loop_check,
        *(line for name in context.stopped for line in (flow.ask("PUT", name, "/resume"), flow.until(name, "RUNNING"))),
    ]
