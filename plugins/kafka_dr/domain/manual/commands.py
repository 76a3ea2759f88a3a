"""What is left of a procedure, as commands for a shell: Kafka's own tools, curl, and files beside them.

Invariants
1. No secret: the tools read `source.properties` and `target.properties`, curl the variable CONNECT_USER.
2. What is printed is exact: entries, offsets and positions come from the journal and its files, never from a pattern.
3. Names are quoted: no topic, group or principal can become a command.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from shlex import quote
from typing import Any, cast
from urllib.parse import quote as in_url

from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput
from kafka_dr.procedures import PROCEDURES
from kafka_dr.vocabulary import Step

_NAMES_AT_ONCE = 50
#: Kafka's tool for positions takes time with the square of the groups it is given.
_GROUPS_AT_ONCE = 50
_ENTRY = re.compile(
    r"(allow|deny) (.+) (\w+) (topic|group|transactional_id|cluster) (literal|prefixed) ('.*'|\".*\") from (\S+)",
    re.DOTALL,
)
_FLAGS = {"topic": "--topic", "group": "--group", "transactional_id": "--transactional-id"}


@dataclass(frozen=True)
class Place:
    """How the tools reach a cluster: servers, and the file with the login."""

    alias: str
    servers: str
    settings: str

    def tool(self, name: str) -> str:
        """One of Kafka's tools on this cluster."""
        return f"{name} --bootstrap-server {quote(self.servers)} --command-config {quote(self.settings)}"


@dataclass(frozen=True)
class Flow:
    """A flow in its Connect worker; `login` when the worker asks for one."""

    url: str
    login: bool
    alias: str
    source: str
    checkpoint: str

    def ask(self, method: str, connector: str, rest: str, more: str = "") -> str:
        """One request about a connector."""
        login = ' -u "$CONNECT_USER"' if self.login else ""
        return (
            f"curl -fsS{login} -X {method}{more}"
            f" {quote(f'{self.url}/connectors/{in_url(connector, safe=str())}{rest}')}"
        )

    def until(self, connector: str, state: str) -> str:
        """Wait until a connector is in a state."""
        wanted = '"connector":{"state":"' + state + '"'
        return f"until {self.ask('GET', connector, '/status')} | grep -q {quote(wanted)}; do sleep 1; done"


@dataclass(frozen=True)
class Hand:
    """Everything the commands are made of.

    Attributes:
        flow: None where MirrorMaker 2 runs in dedicated mode.
        done, begun: steps with an outcome, with an intent.
        fence, opening: entries that the plan adds on the source and removes on the target.
        added, removed: entries that were added on the source and removed on the target, and that a return puts back.
        stopped: connectors that a return resumes.
        positions: group, topic, partition and offset on the target; None before they are translated, and where the
            notes of commit_groups say why they are not known.
        local_topics: topics that clients will write to and that are still to be made, with their partitions.
        seeds: last replicated offsets of the reverse flow, None for its beginning; None before the boundary is known.
        routing: where clients look, as `cp` or `curl` words; empty when that is nothing for a shell.
        drain: the application's drain hook; empty without one.
        mark: the command that notes in the journal what is done by hand.
        fence_hook: the hook that was asked to keep clients from the source; empty if none was.
    """

    procedure_id: str
    dag_id: str
    source: Place
    target: Place
    flow: Flow | None
    reverse: Flow | None
    done: frozenset[str]
    begun: frozenset[str]
    fence: tuple[AclEntry, ...]
    opening: tuple[AclEntry, ...]
    added: tuple[AclEntry, ...]
    removed: tuple[AclEntry, ...]
    stopped: tuple[str, ...]
    positions: tuple[tuple[str, str, int, int], ...] | None
    seeds: Mapping[TopicPartition, int | None] | None
    routing: str
    drain: str
    mark: str
    local_topics: tuple[tuple[str, int], ...] = ()
    start_reverse: bool = False
    loops: bool = True
    notes: Mapping[str, str] = field(default_factory=dict)
    fence_hook: str = ""

    @property
    def given_up(self) -> bool:
        """Whether nothing that is printed may need the source, but the way back where something was added on it."""
        return not PROCEDURES[self.dag_id].needs_source

    @property
    def forward(self) -> Flow:
        """The flow, on all ways but that without a source, where alone it may be None."""
        return cast("Flow", self.flow)


@dataclass(frozen=True)
class Block:
    """One step: its words, and its commands."""

    step: str
    says: tuple[str, ...]
    commands: tuple[str, ...] = ()
    done: bool = False


def entry_of(text: str) -> AclEntry:
    """The entry that a plan shows as text; the reverse of `str`."""
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise BadInput("the plan names an ACL entry that cannot be read", text, "look at the plan's version")
    permission, principal, operation, kind, pattern, name, host = found.groups()
    return AclEntry(kind, ast.literal_eval(name), pattern, principal, host, operation, permission)


def acl_commands(place: Place, verb: str, entries: Iterable[AclEntry]) -> list[str]:
    """Commands that add or remove exactly these entries.

    A topic without any entry may be open to everyone, and closed by the first: what allows comes first and goes last.
    """
    kept = sorted(set(entries), key=lambda e: ((e.permission == "deny") == (verb == "add"), *_kind_of(e), e.name))
    found = []
    for _, alike in groupby(kept, key=_kind_of):
        same = list(alike)
        found += [_acl_command(place, verb, same[i : i + _NAMES_AT_ONCE]) for i in range(0, len(same), _NAMES_AT_ONCE)]
    return found


def _kind_of(entry: AclEntry) -> tuple[str, ...]:
    return (entry.permission, entry.principal, entry.host, entry.operation, entry.resource_type, entry.pattern)


def _acl_command(place: Place, verb: str, entries: Sequence[AclEntry]) -> str:
    one = entries[0]
    operation = "".join(word.capitalize() for word in one.operation.split("_"))
    names = (
        ["--cluster"]
        if one.resource_type == "cluster"
        else [f"{_FLAGS[one.resource_type]} {quote(e.name)}" for e in entries]
    )
    words = [
        place.tool("kafka-acls.sh"), f"--{verb}", *(["--force"] if verb == "remove" else []),
        f"--{one.permission}-principal {quote(one.principal)}", f"--{one.permission}-host {quote(one.host)}",
        f"--operation {operation}", f"--resource-pattern-type {one.pattern}", *names,
    ]  # fmt: skip
    return " ".join(words)


# -- onwards -------------------------------------------------------------------------------------------------------


def to_go_on(hand: Hand) -> list[Block]:
    """The steps from the fence to the end, done ones without commands; what no shell can do ends the list."""
    found: list[Block] = []
    for step in PROCEDURES[hand.dag_id].steps:
        if step not in _BLOCKS:
            continue
        found.append(Block(step, ("done",), done=True) if step in hand.done else _BLOCKS[step](hand))
        if step == Step.TRANSLATE_OFFSETS and hand.positions is None:
            unknown = hand.notes.get(Step.COMMIT_GROUPS)
            return [*found, Block(Step.COMMIT_GROUPS, (unknown,), ("exit 1",))] if unknown else found
    return found


def _approve_loss(hand: Hand) -> Block:
    return Block(
        Step.APPROVE_DATA_LOSS,
        (
            "A second person reads what is lost, and agrees to it. This prints it:",
            f"  python -m kafka_dr.commands.plan {hand.procedure_id}",
        ),
    )


def _keep_away(_: Hand) -> Block:
    return Block(
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


def _stop_left(hand: Hand) -> Block:
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
    return Block(Step.STOP_MIRROR_MAKER, says, (*stop, *_still(hand.target, "target_partitions.txt", "boundary.txt")))


#: A worker whose machine is gone must not keep the script.
_AT_MOST = " --max-time 20"


def _fence(hand: Hand) -> Block:
    ask = [_tell(hand, "drain")] if hand.drain else []
    wanted = [e for e in hand.fence if e.resource_type == "topic"]
    says = ("Clients are refused to write on the source. Its log ends must stand still: `diff` prints nothing.",)
    return Block(
        Step.FENCE_PRODUCERS,
        says,
        (*ask, *acl_commands(hand.source, "add", wanted), *_still(hand.source, "source_partitions.txt", "cut_off.txt")),
    )


def _drain(hand: Hand) -> Block:
    wanted = [e for e in hand.fence if e.resource_type == "group"]
    says = ("Stop the consumers, then refuse their reads. No group of groups.txt may have members:",)
    look = f"{hand.source.tool('kafka-consumer-groups.sh')} --describe --all-groups --members"
    return Block(Step.DRAIN_CONSUMERS, says, (look, *acl_commands(hand.source, "add", wanted), look))


def _zero_lag(hand: Hand) -> Block:
    says = (
        (
            "MirrorMaker 2 must have replicated up to one below each line of cut_off.txt; after transactions it may"
            " stay some below,"
        ),
        "then read the last record of both partitions and compare.",
    )
    return Block(Step.WAIT_FOR_ZERO_LAG, says, (hand.forward.ask("GET", hand.forward.source, "/offsets"),))


def _stop(hand: Hand) -> Block:
    if hand.given_up:
        return _stop_left(hand)
    stop = [
        line
        for name in (hand.forward.source, hand.forward.checkpoint)
        for line in (hand.forward.ask("PUT", name, "/stop"), hand.forward.until(name, "STOPPED"))
    ]
    return Block(
        Step.STOP_MIRROR_MAKER,
        ("The target's log ends must stand still.",),
        (*stop, *_still(hand.target, "target_partitions.txt", "boundary.txt")),
    )


def _translate(hand: Hand) -> Block:
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
    return Block(Step.TRANSLATE_OFFSETS, says, ("exit 1",))


def _review(hand: Hand) -> Block:
    return Block(
        Step.REVIEW_TRANSLATION,
        ("A second person reads positions-*.csv. " + hand.notes.get(Step.REVIEW_TRANSLATION, ""),),
    )


def _commit(hand: Hand) -> Block:
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
    return Block(Step.COMMIT_GROUPS, says, (*make, *commands))


def _seed(hand: Hand) -> Block:
    if hand.reverse is None or not hand.seeds:
        return Block(
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
    return Block(
        Step.SEED_REVERSE_REPLICATION,
        says,
        (flow.ask("GET", flow.source, "/status"), send, flow.ask("GET", flow.source, "/offsets")),
    )


def _open(hand: Hand) -> Block:
    whose = "target's logs" if hand.given_up else "logs of both sides"
    says = (
        f"THE POINT OF NO RETURN. The {whose} must be as they were left: `diff` prints nothing, else stop here.",
        *([_UNWATCHED] if hand.given_up else []),
    )
    look = [
        *(
            []
            if hand.given_up
            else [_ends(hand.source, "source_partitions.txt", "now.txt"), "diff cut_off.txt now.txt"]
        ),
        *([_ends(hand.target, "target_partitions.txt", "now.txt"), "diff boundary.txt now.txt"]),
    ]
    entries = hand.removed if Step.OPEN_TARGET in hand.begun else hand.opening
    begun = [] if Step.OPEN_TARGET in hand.begun else [*look, f"{hand.mark} opening"]
    return Block(Step.OPEN_TARGET, says, (*begun, *acl_commands(hand.target, "remove", entries), f"{hand.mark} opened"))


def _redirect(hand: Hand) -> Block:
    go = [_tell(hand, "resume")] if hand.drain else []
    says = (
        ("Clients look up the target.",)
        if hand.routing
        else ("Change where clients connect: routing.json says to what.",)
    )
    return Block(Step.REDIRECT_CLIENTS, says, (*([hand.routing] if hand.routing else []), *go))


def _verify(hand: Hand) -> Block:
    return Block(
        Step.VERIFY_CLIENTS,
        ("Groups that were active come to life on the target.",),
        (f"{hand.target.tool('kafka-consumer-groups.sh')} --describe --all-groups --state",),
    )


def _start_reverse(hand: Hand) -> Block:
    if not hand.start_reverse or hand.reverse is None:
        return Block(Step.START_REVERSE_REPLICATION, ("Not asked for.",))
    flow, forward = hand.reverse, hand.forward
    lines = [
        f"{forward.ask('GET', forward.source, '/status')} | grep -q {quote(_STOPPED)}",
        flow.ask("PUT", flow.source, "/resume"),
        flow.ask("PUT", flow.checkpoint, "/resume"),
    ]
    return Block(Step.START_REVERSE_REPLICATION, ("Only while the other direction is STOPPED.",), tuple(lines))


_STOPPED = '"connector":{"state":"STOPPED"'

#: What a person can do in a step's place; steps before these are the procedure's own.
_BLOCKS: Mapping[Step, Callable[[Hand], Block]] = {
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


def to_return(hand: Hand) -> list[Block]:
    """The way back: clients first, for a worker that is away must not keep them from a source that works."""
    if Step.OPEN_TARGET in hand.done:
        return [
            Block(
                Step.RETURN_TO_SOURCE, ("The target is open: there is only forward, or a failback later.",), ("exit 1",)
            )
        ]
    if (Step.FENCE_SOURCE if hand.given_up else Step.FENCE_PRODUCERS) not in hand.begun:
        return [Block(Step.RETURN_TO_SOURCE, ("Nothing was touched: there is nothing to return.",))]
    told = [_tell(hand, "resume")] if hand.drain else []
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
    return [Block(Step.RETURN_TO_SOURCE, (*says, *_back_to_what_was_given_up(hand)), tuple(commands))]


def _back_to_what_was_given_up(hand: Hand) -> list[str]:
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


def _let_in(hand: Hand) -> list[str]:
    """The fence hook's last word counts."""
    if not hand.fence_hook:
        return []
    body = json.dumps({"procedure_id": hand.procedure_id, "cluster": hand.source.alias})
    return [
        (
            f"{_post(f'{hand.fence_hook}/unfence', body)} || echo"
            f" {quote(f'the fence hook does not do it: have it let clients in to {hand.source.alias}')}"
        )
    ]


def _close_target(hand: Hand) -> list[str]:
    """Once the opening had begun, return is allowed only if nothing was written there: fence it again and look."""
    if Step.OPEN_TARGET not in hand.begun:
        return []
    return [
        *acl_commands(hand.target, "add", hand.removed),
        "sleep 5",
        _ends(hand.target, "target_partitions.txt", "now.txt"),
        "diff boundary.txt now.txt",
    ]


def _resume(hand: Hand) -> list[str]:
    if hand.flow is None or not hand.stopped:
        return []
    loop = (
        [f"{hand.reverse.ask('GET', hand.reverse.source, '/status')} | grep -q {quote(_STOPPED)}"]
        if hand.reverse is not None and hand.loops
        else []
    )
    flow = hand.flow
    return [
        *loop,
        *(line for name in hand.stopped for line in (flow.ask("PUT", name, "/resume"), flow.until(name, "RUNNING"))),
    ]


# -- files and text ------------------------------------------------------------------------------------------------


def position_files(positions: Sequence[tuple[str, str, int, int]]) -> list[tuple[str, list[str], str]]:
    """Name, groups and content of each file for `--reset-offsets --from-file`.

    A file of one group has another shape than one of several; the last file takes two rather than one where it can.
    """
    groups = sorted({row[0] for row in positions})
    held = {group: list(rows) for group, rows in groupby(sorted(positions), key=lambda row: row[0])}
    cut = [groups[i : i + _GROUPS_AT_ONCE] for i in range(0, len(groups), _GROUPS_AT_ONCE)]
    found = []
    for number, part in enumerate(cut, 1):
        rows = [(row if len(part) > 1 else row[1:]) for group in part for row in held[group]]
        found.append(
            (f"positions-{number}.csv", part, "".join(",".join(_csv(value) for value in row) + "\n" for row in rows))
        )
    return found


def _csv(value: object) -> str:
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if re.search(r'[",\r\n]|^\s|\s$', text) else text


def offset_lines(ends: Mapping[TopicPartition, int]) -> str:
    """Offsets as kafka-get-offsets.sh prints them, sorted by byte."""
    return "".join(sorted(f"{tp.topic}:{tp.partition}:{offset}\n" for tp, offset in ends.items()))


def partition_patterns(partitions: Iterable[TopicPartition]) -> str:
    """Lines for `grep -f` that pick these partitions out of what kafka-get-offsets.sh prints."""
    return "".join(sorted(f"^{re.escape(tp.topic).replace(chr(92) + '-', '-')}:{tp.partition}:\n" for tp in partitions))


def seeds_json(alias: str, seeds: Mapping[TopicPartition, int | None]) -> str:
    """The body of `PATCH /connectors/NAME/offsets`."""
    rows: list[dict[str, Any]] = [
        {
            "partition": {"cluster": alias, "partition": tp.partition, "topic": tp.topic},
            "offset": None if last is None else {"offset": last},
        }
        for tp, last in sorted(seeds.items())
    ]
    return json.dumps({"offsets": rows}, indent=1) + "\n"


#: The script leaves the folder that a relative PYTHONPATH or topology is meant from.
_ABSOLUTE = (
    (
        'if [ -n "${PYTHONPATH:-}" ]; then PYTHONPATH="$(IFS=:; for part in $PYTHONPATH; do printf "%s:" "$(realpath -m'
        ' -- "$part")"; done)"; export PYTHONPATH="${PYTHONPATH%:}"; fi'
    ),
    (
        'if [ -n "${KAFKA_DR_TOPOLOGY:-}" ]; then KAFKA_DR_TOPOLOGY="$(realpath -m -- "$KAFKA_DR_TOPOLOGY")"; export'
        " KAFKA_DR_TOPOLOGY; fi"
    ),
)


def script(title: str, blocks: Sequence[Block]) -> str:
    """Blocks as a shell script: it stops at the first command that fails."""
    lines = [
        "#!/usr/bin/env bash",
        f"# {title}",
        "set -euo pipefail",
        "export LC_ALL=C",
        *_ABSOLUTE,
        'cd "$(dirname "${BASH_SOURCE[0]}")"',
    ]
    for block in blocks:
        lines += [
            "",
            f"# {block.step}" + (": done" if block.done else ""),
            *(f"#   {' '.join(text.splitlines())}" for text in block.says if not block.done),
            *block.commands,
        ]
    return "\n".join(lines) + "\n"


def _still(place: Place, partitions: str, kept: str) -> list[str]:
    return [_ends(place, partitions, kept), "sleep 5", _ends(place, partitions, "now.txt"), f"diff {kept} now.txt"]


def _ends(place: Place, partitions: str, kept: str) -> str:
    return f"{place.tool('kafka-get-offsets.sh')} | grep -f {partitions} | sort > {kept}"


def _tell(hand: Hand, what: str) -> str:
    """A word to the application's drain hook; its silence ends nothing, people can be told as well."""
    body = json.dumps({"procedure_id": hand.procedure_id})
    return (
        f"{_post(f'{hand.drain}/{what}', body)} || echo 'the drain hook does not answer: tell the application to"
        f" {what}'"
    )


def _post(url: str, body: str) -> str:
    return f"curl -fsS -X POST -H 'Content-Type: application/json' -d {quote(body)} {quote(url)}"
