"""The remaining steps of a procedure as shell commands: Kafka's own tools, curl, and files beside the commands.

Invariants
1. No secret is printed: the tools read `source.properties` and `target.properties`, curl the variable CONNECT_USER.
2. The commands are exact: ACL entries, offsets and positions come from the journal and its files, never from a pattern.
3. Names are quoted: no topic, group or principal can become a command.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from shlex import quote

from kafka_dr.domain.manual.acl_commands import change_commands
from kafka_dr.domain.manual.context import ConnectorCommands, ManualContext, ManualStep, ToolAccess
from kafka_dr.domain.manual.files import position_files, seed_files
from kafka_dr.procedures import PROCEDURES
from kafka_dr.vocabulary import Step

# -- forward -------------------------------------------------------------------------------------------------------


def forward_commands(context: ManualContext) -> list[ManualStep]:
    """Return a procedure's steps as a person can do them, from approve_data_loss or the fence to the end.

    A step that is done has no commands; a step that no shell command can do ends the list.
    """
    steps: list[ManualStep] = []
    for step in PROCEDURES[context.dag_id].steps:
        if step not in _BUILDERS:
            continue
        steps.append(ManualStep(step, ("done",), done=True) if step in context.done else _BUILDERS[step](context))
        if step == Step.TRANSLATE_OFFSETS and context.positions is None:
            unknown = context.notes.get(Step.COMMIT_GROUPS)
            return [*steps, ManualStep(Step.COMMIT_GROUPS, (unknown,), ("exit 1",))] if unknown else steps
    return steps


def _approve_loss(context: ManualContext) -> ManualStep:
    return ManualStep(
        Step.APPROVE_DATA_LOSS,
        (
            "A second person reads the loss and approves the loss. This command prints the loss:",
            f"  python -m kafka_dr.commands.plan {context.procedure_id}",
        ),
    )


def _fence_lost_source(_: ManualContext) -> ManualStep:
    return ManualStep(
        Step.FENCE_SOURCE,
        (
            (
                "The source was declared lost: no command here fences the source. Keep clients from the source by its"
                " network, its storage or its power."
            ),
            _NOT_WATCHED_TEXT,
        ),
    )


_NOT_WATCHED_TEXT = (
    "While neither Airflow nor `python -m kafka_dr.commands.watch_old_source` runs, no process watches a source that is"
    " not fenced: if the source answers again, the source accepts writes, and no process lists the writes."
)


def _stop_without_source(context: ManualContext) -> ManualStep:
    says: tuple[str, ...] = (
        (
            "A Connect worker that does not answer is skipped, because it may be lost with the source. The target's log"
            " ends must be stable: `diff` prints nothing."
        ),
    )
    if context.flow is None:
        says += ("MirrorMaker 2 runs in dedicated mode: end its processes, and prevent their restart.",)
    stop = (
        [
            f"{context.flow.ask('PUT', name, '/stop', _CURL_TIMEOUT)} || echo"
            f" {quote(f'{name} was not stopped: its Connect worker refused or did not answer')}"
            for name in context.flow.names
        ]
        if context.flow
        else []
    )
    return ManualStep(
        Step.STOP_MIRROR_MAKER, says, (*stop, *_stable_ends(context.target, "target_partitions.txt", "boundary.txt"))
    )


#: Options for curl: a Connect worker whose machine is gone must not block the script.
_CURL_TIMEOUT = " --max-time 20"


def _fence(context: ManualContext) -> ManualStep:
    drain_request = [tell_application(context, "drain")] if context.drain else []
    says = ("Refuse clients' writes on the source. The source's log ends must be stable: `diff` prints nothing.",)
    return ManualStep(
        Step.FENCE_PRODUCERS,
        says,
        (
            *drain_request,
            *([ask_hook(context, "fence", context.source.alias)] if context.planned_hook else []),
            *change_commands(context.source, context.fence.of_type("topic")),
            *_stable_ends(context.source, "source_partitions.txt", "cut_off.txt"),
        ),
    )


def _drain(context: ManualContext) -> ManualStep:
    refuse_reads = change_commands(context.source, context.fence.of_type("group"))
    says = (
        "Stop the consumers, then refuse their reads on the source. The groups in groups.txt must have no members:",
    )
    list_members = f"{context.source.tool('kafka-consumer-groups.sh')} --describe --all-groups --members"
    return ManualStep(Step.DRAIN_CONSUMERS, says, (list_members, *refuse_reads, list_members))


def _wait_for_zero_lag(context: ManualContext) -> ManualStep:
    says = (
        (
            "MirrorMaker 2 must have replicated each partition up to its offset in cut_off.txt minus one; after"
            " transactions MirrorMaker 2 may stay a few offsets lower."
        ),
        "Then read the last record of each partition on the source and on the target, and compare the records.",
    )
    flow = context.forward
    return ManualStep(Step.WAIT_FOR_ZERO_LAG, says, tuple(flow.ask("GET", name, "/offsets") for name in flow.sources))


def _stop(context: ManualContext) -> ManualStep:
    if context.given_up:
        return _stop_without_source(context)
    stop = [
        line
        for name in context.forward.names
        for line in (context.forward.ask("PUT", name, "/stop"), context.forward.until(name, "STOPPED"))
    ]
    return ManualStep(
        Step.STOP_MIRROR_MAKER,
        ("The target's log ends must be stable: `diff` prints nothing.",),
        (*stop, *_stable_ends(context.target, "target_partitions.txt", "boundary.txt")),
    )


def _translate(context: ManualContext) -> ManualStep:
    says = (
        (
            "No shell command computes the positions: this step reads records"
            f" {'of the target' if context.given_up else 'of both clusters'}. Continue the procedure with:"
        ),
        f"  python -m kafka_dr.commands.run_procedure --resume {context.procedure_id}",
        (
            "Print these commands again when translate_offsets is done. Without translate_offsets only MirrorMaker 2's"
            " checkpoints exist, which make groups read records again."
        ),
    )
    return ManualStep(Step.TRANSLATE_OFFSETS, says, ("exit 1",))


def _review(context: ManualContext) -> ManualStep:
    return ManualStep(
        Step.REVIEW_TRANSLATION,
        ("A second person reads positions-*.csv. " + context.notes.get(Step.REVIEW_TRANSLATION, ""),),
    )


def _commit(context: ManualContext) -> ManualStep:
    says: tuple[str, ...] = (
        (
            "The groups in these files must have no members on the target. Each line of the output is a position that"
            " was set."
        ),
    )
    create_topics = [
        f"{context.target.tool('kafka-topics.sh')} --create --if-not-exists --topic {quote(topic)} --partitions {count}"
        for topic, count in context.local_topics
    ]
    whose = "its mirrored topic" if context.given_up else "the source's topic"
    says += (
        (
            (
                "The first commands create the topics that clients will write to. Give each new topic the settings of"
                f" {whose} (kafka-configs.sh)."
            ),
        )
        if create_topics
        else ()
    )
    tool = context.target.tool("kafka-consumer-groups.sh")
    commands = [
        f"{tool} --reset-offsets --from-file {name} --execute {' '.join(f'--group {quote(g)}' for g in groups)}"
        for name, groups, _ in position_files(context.positions or ())
    ]
    return ManualStep(Step.COMMIT_GROUPS, says, (*create_topics, *commands))


def _seed(context: ManualContext) -> ManualStep:
    if context.reverse is None or not any((context.seeds or {}).values()):
        return ManualStep(
            Step.SEED_REVERSE_REPLICATION,
            (
                context.notes.get(
                    Step.SEED_REVERSE_REPLICATION,
                    "Nothing to do: the topology has no reverse flow, or the reverse flow has no partition.",
                ),
            ),
        )
    flow, commands = context.reverse, list[str]()
    says = tuple(
        f"{connector} must be STOPPED without tasks. The offsets that the last command for it prints must be those of"
        f" {name}."
        for name, connector, _ in seed_files(flow.alias, context.seeds or {})
    )
    for name, connector, _ in seed_files(flow.alias, context.seeds or {}):
        body = f" -H 'Content-Type: application/json' --data @{name}"
        send = flow.ask("PATCH", connector, "/offsets", body)
        commands += [flow.ask("GET", connector, "/status"), send, flow.ask("GET", connector, "/offsets")]
    return ManualStep(Step.SEED_REVERSE_REPLICATION, says, tuple(commands))


def _open(context: ManualContext) -> ManualStep:
    whose = "log ends of the target" if context.given_up else "log ends of both clusters"
    says = (
        f"THE POINT OF NO RETURN. The {whose} must be unchanged: if `diff` prints a line, stop here.",
        *([_NOT_WATCHED_TEXT] if context.given_up else []),
    )
    compare_ends = [
        *(
            []
            if context.given_up
            else [log_ends(context.source, "source_partitions.txt", "now.txt"), "diff cut_off.txt now.txt"]
        ),
        *([log_ends(context.target, "target_partitions.txt", "now.txt"), "diff boundary.txt now.txt"]),
    ]
    opening = context.opening_made if Step.OPEN_TARGET in context.begun_steps else context.opening
    begun = [] if Step.OPEN_TARGET in context.begun_steps else [*compare_ends, f"{context.mark} opening"]
    let_in = [ask_hook(context, "unfence", context.target.alias)] if context.hook_fences_target else []
    return ManualStep(
        Step.OPEN_TARGET, says, (*begun, *let_in, *change_commands(context.target, opening), f"{context.mark} opened")
    )


def _redirect(context: ManualContext) -> ManualStep:
    resume_request = [tell_application(context, "resume")] if context.drain else []
    says = (
        ("This command makes the target the cluster that clients connect to.",)
        if context.routing
        else ("Connect the clients to the cluster that routing.json names.",)
    )
    return ManualStep(Step.REDIRECT_CLIENTS, says, (*([context.routing] if context.routing else []), *resume_request))


def _verify(context: ManualContext) -> ManualStep:
    return ManualStep(
        Step.VERIFY_CLIENTS,
        ("Groups that were active on the source must become active on the target.",),
        (f"{context.target.tool('kafka-consumer-groups.sh')} --describe --all-groups --state",),
    )


def _start_reverse(context: ManualContext) -> ManualStep:
    if context.reverse is None:
        return ManualStep(Step.START_REVERSE_REPLICATION, ("Nothing to do: the topology has no reverse flow.",))
    flow, forward = context.reverse, context.forward
    lines = [
        *require_stopped(forward),
        *change_commands(context.source, context.writer_denials),
        *(_set_enabled(forward, name, False) for name in forward.sources if context.loops),
        *(_set_enabled(flow, name, True) for name in flow.sources if context.loops),
        *(flow.ask("PUT", name, "/resume") for name in flow.names if context.start_reverse),
    ]
    verb = "is" if len(forward.sources) == 1 else "are"
    says = (
        *([] if context.start_reverse else ["This run does not start the reverse flow; a person can resume it later."]),
        f"Run these commands only while {' and '.join(forward.sources)} {verb} STOPPED.",
        *(["With `enabled` false a connector copies nothing, also if somebody resumes it."] if context.loops else []),
    )
    return ManualStep(Step.START_REVERSE_REPLICATION, says, tuple(lines))


def _set_enabled(flow: ConnectorCommands, name: str, enabled: bool) -> str:
    """Return the command that sets a source connector's `enabled` to false, or removes this setting.

    The command fails where Connect masks values: to write asterisks back would destroy the connector's logins.
    """
    change = "c.pop('enabled', 0)" if enabled else "c.update(enabled='false')"
    masked = "any(v and not v.strip('*') for v in c.values()) and sys.exit('Connect masks settings')"
    script = quote(f"import json, sys; c = json.load(sys.stdin); {masked}; {change}; print(json.dumps(c))")
    body = " -H 'Content-Type: application/json' --data @-"
    return f"{flow.ask('GET', name, '/config')} | python -c {script} | {flow.ask('PUT', name, '/config', body)}"


def require_stopped(flow: ConnectorCommands) -> list[str]:
    """Return commands that fail unless the flow's source connectors are STOPPED."""
    stopped = quote('"connector":{"state":"STOPPED"')
    return [f"{flow.ask('GET', name, '/status')} | grep -q {stopped}" for name in flow.sources]


#: Builders of the manual form of each step; a step without one can be done by the procedure only.
_BUILDERS: Mapping[Step, Callable[[ManualContext], ManualStep]] = {
    Step.APPROVE_DATA_LOSS: _approve_loss,
    Step.FENCE_SOURCE: _fence_lost_source,
    Step.FENCE_PRODUCERS: _fence,
    Step.DRAIN_CONSUMERS: _drain,
    Step.WAIT_FOR_ZERO_LAG: _wait_for_zero_lag,
    Step.STOP_MIRROR_MAKER: _stop,
    Step.TRANSLATE_OFFSETS: _translate,
    Step.REVIEW_TRANSLATION: _review,
    Step.COMMIT_GROUPS: _commit,
    Step.SEED_REVERSE_REPLICATION: _seed,
    Step.OPEN_TARGET: _open,
    Step.REDIRECT_CLIENTS: _redirect,
    Step.VERIFY_CLIENTS: _verify,
    Step.START_REVERSE_REPLICATION: _start_reverse,
}

# -- parts of commands ---------------------------------------------------------------------------------------------


def _stable_ends(cluster: ToolAccess, partitions: str, ends_file: str) -> list[str]:
    return [
        log_ends(cluster, partitions, ends_file),
        "sleep 5",
        log_ends(cluster, partitions, "now.txt"),
        f"diff {ends_file} now.txt",
    ]


def log_ends(place: ToolAccess, partitions: str, ends_file: str) -> str:
    """Return the command that reads log ends of a cluster and writes them to the file `ends_file`.

    Args:
        place: the cluster.
        partitions: name of the file with the partitions, as patterns for `grep -f`.
    """
    return f"{place.tool('kafka-get-offsets.sh')} | grep -f {partitions} | sort > {ends_file}"


def tell_application(context: ManualContext, what: str) -> str:
    """Return the command that asks the drain hook to `drain` or `resume` (`what`), or prints what to do instead."""
    body = json.dumps({"procedure_id": context.procedure_id})
    return (
        f"{post_to_hook(f'{context.drain}/{what}', body)} || echo 'the drain hook refused or did not answer:"
        f" {what} the application yourself'"
    )


def ask_hook(context: ManualContext, verb: str, alias: str) -> str:
    """Return the command that asks the planned runs' fence hook to fence a cluster, or to lift its fence (`verb`)."""
    body = json.dumps({"procedure_id": context.procedure_id, "cluster": alias})
    return post_to_hook(f"{context.planned_hook}/{verb}", body)


def post_to_hook(url: str, body: str) -> str:
    """Return the curl command that sends a JSON body to a hook by POST; the command fails on an HTTP error."""
    return f"curl -fsS -X POST -H 'Content-Type: application/json' -d {quote(body)} {quote(url)}"
