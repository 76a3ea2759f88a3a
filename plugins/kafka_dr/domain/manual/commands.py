"""What is left of a procedure, as commands for a shell: Kafka's own tools, curl, and files beside them.

Invariants
1. No secret: the tools read `source.properties` and `target.properties`, curl the variable CONNECT_USER.
2. What is printed is exact: entries, offsets and positions come from the journal and its files, never from a pattern.
3. Names are quoted: no topic, group or principal can become a command.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from shlex import quote

from kafka_dr.domain.manual.acl_commands import acl_commands
from kafka_dr.domain.manual.context import ManualContext, ManualStep, ToolAccess
from kafka_dr.domain.manual.files import position_files
from kafka_dr.procedures import PROCEDURES
from kafka_dr.vocabulary import Step

# -- onwards -------------------------------------------------------------------------------------------------------


def forward_commands(hand: ManualContext) -> list[ManualStep]:
    """The steps from the fence to the end, done ones without commands; what no shell can do ends the list."""
    found: list[ManualStep] = []
    for step in PROCEDURES[hand.dag_id].steps:
        if step not in _BLOCKS:
            continue
        found.append(ManualStep(step, ("done",), done=True) if step in hand.done else _BLOCKS[step](hand))
        if step == Step.TRANSLATE_OFFSETS and hand.positions is None:
            unknown = hand.notes.get(Step.COMMIT_GROUPS)
            return [*found, ManualStep(Step.COMMIT_GROUPS, (unknown,), ("exit 1",))] if unknown else found
    return found


def _approve_loss(hand: ManualContext) -> ManualStep:
    return ManualStep(
        Step.APPROVE_DATA_LOSS,
        (
            "A second person reads what is lost, and agrees to it. This prints it:",
            f"  python -m kafka_dr.commands.plan {hand.procedure_id}",
        ),
    )


def _keep_away(_: ManualContext) -> ManualStep:
    return ManualStep(
        Step.FENCE_SOURCE,
        (
            (
                "The source was given up: no command can fence what does not answer. Keep clients from it by its"
                " network, its storage or its power."
            ),
            _UNWATCHED,
        ),
    )


_UNWATCHED = (
    "A source that is not fenced yet is watched by nobody while Airflow is down: when it comes back it accepts writes,"
    " and nobody lists them."
)


def _stop_left(hand: ManualContext) -> ManualStep:
    says: tuple[str, ...] = (
        (
            "A worker that does not answer is left alone: it may have died with the source. What counts are the"
            " target's log ends, which must stand still."
        ),
    )
    if hand.flow is None:
        says += ("MirrorMaker 2 runs in dedicated mode: end its processes, and keep them from being started again.",)
    stop = (
        [
            f"{hand.flow.ask('PUT', name, '/stop', _AT_MOST)} || echo"
            f" {quote(f'{name} was not stopped: its worker does not do it')}"
            for name in (hand.flow.source, hand.flow.checkpoint)
        ]
        if hand.flow
        else []
    )
    return ManualStep(
        Step.STOP_MIRROR_MAKER, says, (*stop, *_still(hand.target, "target_partitions.txt", "boundary.txt"))
    )


#: A worker whose machine is gone must not keep the script.
_AT_MOST = " --max-time 20"


def _fence(hand: ManualContext) -> ManualStep:
    ask = [tell_application(hand, "drain")] if hand.drain else []
    wanted = [e for e in hand.fence if e.resource_type == "topic"]
    says = ("Clients are refused to write on the source. Its log ends must stand still: `diff` prints nothing.",)
    return ManualStep(
        Step.FENCE_PRODUCERS,
        says,
        (*ask, *acl_commands(hand.source, "add", wanted), *_still(hand.source, "source_partitions.txt", "cut_off.txt")),
    )


def _drain(hand: ManualContext) -> ManualStep:
    wanted = [e for e in hand.fence if e.resource_type == "group"]
    says = ("Stop the consumers, then refuse their reads. No group of groups.txt may have members:",)
    look = f"{hand.source.tool('kafka-consumer-groups.sh')} --describe --all-groups --members"
    return ManualStep(Step.DRAIN_CONSUMERS, says, (look, *acl_commands(hand.source, "add", wanted), look))


def _zero_lag(hand: ManualContext) -> ManualStep:
    says = (
        (
            "MirrorMaker 2 must have replicated up to one below each line of cut_off.txt; after transactions it may"
            " stay some below,"
        ),
        "then read the last record of both partitions and compare.",
    )
    return ManualStep(Step.WAIT_FOR_ZERO_LAG, says, (hand.forward.ask("GET", hand.forward.source, "/offsets"),))


def _stop(hand: ManualContext) -> ManualStep:
    if hand.given_up:
        return _stop_left(hand)
    stop = [
        line
        for name in (hand.forward.source, hand.forward.checkpoint)
        for line in (hand.forward.ask("PUT", name, "/stop"), hand.forward.until(name, "STOPPED"))
    ]
    return ManualStep(
        Step.STOP_MIRROR_MAKER,
        ("The target's log ends must stand still.",),
        (*stop, *_still(hand.target, "target_partitions.txt", "boundary.txt")),
    )


def _translate(hand: ManualContext) -> ManualStep:
    says = (
        (
            "No shell command makes such positions: this step reads records"
            f" {'of the target' if hand.given_up else 'on both sides'}. Run the procedure on:"
        ),
        f"  python -m kafka_dr.commands.run_procedure --resume {hand.procedure_id}",
        (
            "Print these commands again when it is done. Without it there are only MirrorMaker 2's checkpoints, which"
            " make groups read again."
        ),
    )
    return ManualStep(Step.TRANSLATE_OFFSETS, says, ("exit 1",))


def _review(hand: ManualContext) -> ManualStep:
    return ManualStep(
        Step.REVIEW_TRANSLATION,
        ("A second person reads positions-*.csv. " + hand.notes.get(Step.REVIEW_TRANSLATION, ""),),
    )


def _commit(hand: ManualContext) -> ManualStep:
    says: tuple[str, ...] = (
        (
            "Every group of the files must be without members on the target. Each line of the output is a position as"
            " it was set."
        ),
    )
    make = [
        f"{hand.target.tool('kafka-topics.sh')} --create --if-not-exists --topic {quote(topic)} --partitions {count}"
        for topic, count in hand.local_topics
    ]
    whose = "the mirrored topics'" if hand.given_up else "the source's"
    says += (
        (
            (
                f"Topics that clients will write to are made first; give them {whose} settings (kafka-configs.sh) where"
                " they have any."
            ),
        )
        if make
        else ()
    )
    tool = hand.target.tool("kafka-consumer-groups.sh")
    commands = [
        f"{tool} --reset-offsets --from-file {name} --execute {' '.join(f'--group {quote(g)}' for g in groups)}"
        for name, groups, _ in position_files(hand.positions or ())
    ]
    return ManualStep(Step.COMMIT_GROUPS, says, (*make, *commands))


def _seed(hand: ManualContext) -> ManualStep:
    if hand.reverse is None or not hand.seeds:
        return ManualStep(
            Step.SEED_REVERSE_REPLICATION,
            (hand.notes.get(Step.SEED_REVERSE_REPLICATION, "The topology has no reverse flow: nothing to do."),),
        )
    flow = hand.reverse
    says = (
        (
            f"{flow.source} must be STOPPED without tasks; what it keeps afterwards must be what reverse_offsets.json"
            " says."
        ),
    )
    send = flow.ask(
        "PATCH", flow.source, "/offsets", " -H 'Content-Type: application/json' --data @reverse_offsets.json"
    )
    return ManualStep(
        Step.SEED_REVERSE_REPLICATION,
        says,
        (flow.ask("GET", flow.source, "/status"), send, flow.ask("GET", flow.source, "/offsets")),
    )


def _open(hand: ManualContext) -> ManualStep:
    whose = "target's logs" if hand.given_up else "logs of both sides"
    says = (
        f"THE POINT OF NO RETURN. The {whose} must be as they were left: `diff` prints nothing, else stop here.",
        *([_UNWATCHED] if hand.given_up else []),
    )
    look = [
        *(
            []
            if hand.given_up
            else [log_ends(hand.source, "source_partitions.txt", "now.txt"), "diff cut_off.txt now.txt"]
        ),
        *([log_ends(hand.target, "target_partitions.txt", "now.txt"), "diff boundary.txt now.txt"]),
    ]
    entries = hand.removed if Step.OPEN_TARGET in hand.begun else hand.opening
    begun = [] if Step.OPEN_TARGET in hand.begun else [*look, f"{hand.mark} opening"]
    return ManualStep(
        Step.OPEN_TARGET, says, (*begun, *acl_commands(hand.target, "remove", entries), f"{hand.mark} opened")
    )


def _redirect(hand: ManualContext) -> ManualStep:
    go = [tell_application(hand, "resume")] if hand.drain else []
    says = (
        ("Clients look up the target.",)
        if hand.routing
        else ("Change where clients connect: routing.json says to what.",)
    )
    return ManualStep(Step.REDIRECT_CLIENTS, says, (*([hand.routing] if hand.routing else []), *go))


def _verify(hand: ManualContext) -> ManualStep:
    return ManualStep(
        Step.VERIFY_CLIENTS,
        ("Groups that were active come to life on the target.",),
        (f"{hand.target.tool('kafka-consumer-groups.sh')} --describe --all-groups --state",),
    )


def _start_reverse(hand: ManualContext) -> ManualStep:
    if not hand.start_reverse or hand.reverse is None:
        return ManualStep(Step.START_REVERSE_REPLICATION, ("Not asked for.",))
    flow, forward = hand.reverse, hand.forward
    lines = [
        f"{forward.ask('GET', forward.source, '/status')} | grep -q {quote(READ_STOPPED)}",
        flow.ask("PUT", flow.source, "/resume"),
        flow.ask("PUT", flow.checkpoint, "/resume"),
    ]
    return ManualStep(Step.START_REVERSE_REPLICATION, ("Only while the other direction is STOPPED.",), tuple(lines))


READ_STOPPED = '"connector":{"state":"STOPPED"'

#: What a person can do in a step's place; steps before these are the procedure's own.
_BLOCKS: Mapping[Step, Callable[[ManualContext], ManualStep]] = {
    Step.APPROVE_DATA_LOSS: _approve_loss,
    Step.FENCE_SOURCE: _keep_away,
    Step.FENCE_PRODUCERS: _fence,
    Step.DRAIN_CONSUMERS: _drain,
    Step.WAIT_FOR_ZERO_LAG: _zero_lag,
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

# -- back ----------------------------------------------------------------------------------------------------------


# -- files and text ------------------------------------------------------------------------------------------------


def _still(place: ToolAccess, partitions: str, kept: str) -> list[str]:
    return [
        log_ends(place, partitions, kept),
        "sleep 5",
        log_ends(place, partitions, "now.txt"),
        f"diff {kept} now.txt",
    ]


def log_ends(place: ToolAccess, partitions: str, kept: str) -> str:
    """The command that writes log ends of partitions to a file."""
    return f"{place.tool('kafka-get-offsets.sh')} | grep -f {partitions} | sort > {kept}"


def tell_application(hand: ManualContext, what: str) -> str:
    """A word to the application's drain hook; its silence ends nothing, people can be told as well."""
    body = json.dumps({"procedure_id": hand.procedure_id})
    return (
        f"{post_to_hook(f'{hand.drain}/{what}', body)} || echo 'the drain hook does not answer: tell the application to"
        f" {what}'"
    )


def post_to_hook(url: str, body: str) -> str:
    """One request to a hook."""
    return f"curl -fsS -X POST -H 'Content-Type: application/json' -d {quote(body)} {quote(url)}"
