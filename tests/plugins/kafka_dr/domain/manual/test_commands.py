"""Commands for a person: exact, quoted, in an order that is safe."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka_dr.domain.kafka_model.acl import AclChange, AclEntry
from kafka_dr.domain.kafka_model.search_end import SEARCH_END
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.manual.acl_commands import acl_commands, entry_of
from kafka_dr.domain.manual.commands import forward_commands
from kafka_dr.domain.manual.context import ConnectorCommands, ManualContext, ManualStep, ToolAccess
from kafka_dr.domain.manual.files import offset_lines, partition_patterns, position_files, seed_files, seeds_json
from kafka_dr.domain.manual.rollback import rollback_commands
from kafka_dr.domain.manual.script import shell_script
from kafka_dr.errors import BadInput
from kafka_dr.procedures import FAILBACK, PLANNED_FAILOVER, PROCEDURES, UNPLANNED_FAILOVER, ProcedureDefinition
from kafka_dr.vocabulary import Step

SOURCE, TARGET = ToolAccess("east", "e:9092", "source.properties"), ToolAccess("west", "w:9092", "target.properties")
DENY = AclEntry("topic", "orders", "literal", "User:app", "*", "write", "deny")
GROUP = AclEntry("group", "billing", "literal", "User:app", "*", "read", "deny")
BEFORE = [
    s
    for s in Step
    if s
    in (
        Step.FENCE_PRODUCERS,
        Step.DRAIN_CONSUMERS,
        Step.WAIT_FOR_ZERO_LAG,
        Step.STOP_MIRROR_MAKER,
        Step.TRANSLATE_OFFSETS,
    )
]


def hand(**changes: object) -> ManualContext:
    """A procedure that has translated its positions."""
    made = ManualContext(
        "p-1",
        "planned_failover",
        SOURCE,
        TARGET,
        ConnectorCommands("http://c", False, "east", ("e->w.source",), "e->w.checkpoint"),
        ConnectorCommands("http://r", True, "west", ("w.source",), "w.checkpoint"),
        frozenset(BEFORE),
        frozenset(BEFORE),
        AclChange((DENY, GROUP)),
        AclChange(removes=(DENY,)),
        AclChange((DENY, GROUP)),
        AclChange(),
        ("e->w.source", "e->w.checkpoint"),
        (("billing", "orders", 0, 7),),
        {"w.source": {TopicPartition("orders", 0): 6}},
        "cp a b",
        "http://app",
        "mark",
    )
    return replace(made, **changes)


def commands(blocks: list) -> str:
    """All commands of some blocks."""
    return "\n".join(line for block in blocks for line in block.commands)


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=20)


@given(
    name=names,
    kind=st.sampled_from(["topic", "group", "transactional_id"]),
    pattern=st.sampled_from(["literal", "prefixed"]),
    principal=names.map(lambda n: f"User:{n}"),
)
def test_an_entry_survives_its_text(name: str, kind: str, pattern: str, principal: str) -> None:
    """What the plan shows as text is read back as the very same entry."""
    entry = AclEntry(kind, name, pattern, principal, "*", "write", "deny")
    assert entry_of(str(entry)) == entry


def test_a_text_that_is_no_entry_is_refused() -> None:
    """Nothing is guessed."""
    with pytest.raises(BadInput):
        entry_of("deny everything")


@example(["0", "--topic"])
@given(st.lists(names, min_size=1, max_size=130, unique=True))
def test_every_name_is_said_once_and_quoted(topics: list[str]) -> None:
    """A shell reads exactly the names that were meant, whatever they hold."""
    lines = acl_commands(SOURCE, "add", [replace(DENY, name=t) for t in topics])
    # Like the tool, which takes the word after --topic as its value even if this word begins with dashes.
    words = iter([word for line in lines for word in shlex.split(line)])
    assert sorted(next(words) for word in words if word == "--topic") == sorted(topics)


def test_what_allows_comes_first_and_goes_last() -> None:
    """A lone DENY on a topic without entries would take reading from everyone."""
    allow = AclEntry("topic", "orders", "literal", "User:*", "*", "read", "allow")
    added, removed = (acl_commands(SOURCE, verb, [DENY, allow]) for verb in ("add", "remove"))
    assert "--allow-principal" in added[0] and "--deny-principal" in added[1]
    assert "--deny-principal" in removed[0] and "--allow-principal" in removed[1]
    assert all("--force" in line for line in removed)


def test_the_entry_that_ends_a_search_comes_first_and_goes_last() -> None:
    """Also before entries that allow: each command is a start of kafka-acls, seconds apart."""
    entries = [
        AclEntry("group", name, "literal", principal, "*", "read", permission)
        for name in ("$GROUP", "${GROUP}")
        for principal, permission in (("User:app", "deny"), ("User:warehouse", "deny"), ("User:mm2", "allow"))
    ]
    for verb, at in (("add", 0), ("remove", -1)):
        commands = acl_commands(SOURCE, verb, [*entries, SEARCH_END])
        assert SEARCH_END.principal in commands[at] and sum(SEARCH_END.principal in one for one in commands) == 1
        assert len(commands) == 4


def test_words_of_kafkas_tool() -> None:
    """Operations, patterns and the cluster as kafka-acls.sh spells them."""
    line = acl_commands(
        TARGET,
        "add",
        [AclEntry("cluster", "kafka-cluster", "literal", "User:a", "10.0.0.1", "describe_configs", "allow")],
    )[0]
    assert "--operation DescribeConfigs" in line and line.endswith("--cluster") and "--allow-host 10.0.0.1" in line
    assert "target.properties" in line


def test_onwards_says_what_is_done_and_what_remains() -> None:
    """Done steps have no commands, the others have all of theirs, in the procedure's order."""
    blocks = forward_commands(hand())
    assert [b.step for b in blocks if b.done] == BEFORE and not any(b.commands for b in blocks if b.done)
    text = commands(blocks)
    order = ["--from-file positions-1.csv", "@reverse_offsets.json", "mark opening", "--remove", "cp a b", "/resume"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert text.index("diff cut_off.txt") < text.index("mark opening")
    assert text.index("diff boundary.txt") < text.index("mark opening")


def test_several_source_connectors_are_each_stopped_and_seeded() -> None:
    """Each seeded from a file of its own; the checkpoint connector is asked on its own worker."""
    flow = ConnectorCommands("http://c", False, "east", ("low", "high"), "e.c", ("http://k", True))
    reverse = ConnectorCommands("http://r", True, "west", ("w.low", "w.high", "w.none"), "w.c")
    seeds = {"w.low": {TopicPartition("orders", 0): 6}, "w.high": {TopicPartition("pays", 0): None}, "w.none": {}}
    made = hand(flow=flow, reverse=reverse, seeds=seeds, done=frozenset(), stopped=flow.names, start_reverse=True)
    text = commands(forward_commands(replace(made, done=frozenset(BEFORE))))
    for n, connector in enumerate(("w.low", "w.high"), 1):
        assert f"--data @reverse_offsets-{n}.json http://r/connectors/{connector}/offsets" in text
    assert "w.none/offsets" not in text
    assert [text.index(f"http://c/connectors/{name}/status | grep") for name in flow.sources], "none may copy back"
    for name in (*flow.sources, *reverse.sources):
        assert text.index(f"{name}/config | python -c") < text.index("http://r/connectors/w.low/resume")
    assert text.index("http://r/connectors/w.none/resume") < text.index("http://r/connectors/w.c/resume")
    assert [name for name, _, _ in seed_files("west", seeds)] == ["reverse_offsets-1.json", "reverse_offsets-2.json"]
    (back,) = rollback_commands(made)
    stopped = [f"http://r/connectors/{name}/status | grep -q" for name in reverse.sources]
    resumed = ["http://c/connectors/low/resume", "http://c/connectors/high/resume", "http://k/connectors/e.c/resume"]
    text = commands([back])
    order = [text.index(part) for part in (*stopped, *resumed)]
    assert order == sorted(order) and '-u "$CONNECT_USER" -X PUT http://k' in text


def test_onwards_ends_where_no_shell_can_go_on() -> None:
    """Without translated positions nothing is committed and nothing opened."""
    blocks = forward_commands(hand(done=frozenset(BEFORE[:-1]), positions=None))
    assert blocks[-1].step == Step.TRANSLATE_OFFSETS and blocks[-1].commands == ("exit 1",)


def test_before_anything_was_done_the_fence_is_laid_and_proven() -> None:
    """Writes are fenced at the first step, reads at the second; ends that move stop the script."""
    fence, drain = forward_commands(hand(done=frozenset(), begun_steps=frozenset()))[:2]
    assert "--topic orders" in commands([fence]) and "diff cut_off.txt now.txt" in commands([fence])
    assert "/drain" in commands([fence])
    assert "--group billing" in commands([drain]) and "--topic" not in commands([drain])


def test_back_lifts_exactly_what_was_laid() -> None:
    """Noted before; the fence first, then the applications, whose hook may be silent, then MirrorMaker 2."""
    text = commands(rollback_commands(hand()))
    order = [
        "mark returning",
        "--remove",
        "http://app/resume || echo",
        "e-%3Ew.source/resume",
        "e-%3Ew.checkpoint/resume",
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert text.count("--remove") == 2 and "--add" not in text
    assert text.index('"STOPPED"') < text.index("e-%3Ew.source/resume"), "the other direction is looked at first"


def test_back_without_a_stop_resumes_nothing() -> None:
    """Only what was touched is put back."""
    text = commands(
        rollback_commands(
            hand(begun_steps=frozenset({Step.FENCE_PRODUCERS}), fence_made=AclChange((DENY,)), stopped=())
        )
    )
    assert "connectors" not in text and text.count("--remove") == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"begun_steps": frozenset()}, "This run has not fenced clients"),
        ({"done": frozenset({Step.OPEN_TARGET})}, "The target is open"),
    ],
)
def test_there_is_not_always_a_way_back(changes: dict, said: str) -> None:
    """Before the fence there is nothing to return, after the opening no way back."""
    (block,) = rollback_commands(hand(**changes))
    assert said in block.says[0] and "--remove" not in commands([block])


def test_an_opening_that_had_begun_is_closed_and_looked_at_first() -> None:
    """Return is allowed only if nothing was written on the target."""
    text = commands(
        rollback_commands(
            hand(
                begun_steps=frozenset([*BEFORE, Step.OPEN_TARGET]),
                opening_made=AclChange(removes=(replace(DENY, principal="User:*"),)),
            )
        )
    )
    assert text.index("--add") < text.index("diff boundary.txt now.txt") < text.index("mark returning")


@given(
    st.lists(
        st.tuples(names, names, st.integers(0, 9), st.integers(0, 9**9)), max_size=150, unique_by=lambda row: row[:3]
    )
)
def test_files_hold_every_position_once(rows: list[tuple[str, str, int, int]]) -> None:
    """Read as Kafka's tool reads them: one group's file has no column for it."""
    import csv
    import io

    found = []
    for _, groups, text in position_files(rows):
        read = list(csv.reader(io.StringIO(text, newline="")))
        found += [tuple(row) if len(groups) > 1 else (groups[0], *row) for row in read]
    assert sorted(found) == sorted((g, t, str(p), str(o)) for g, t, p, o in rows)


def test_offsets_and_patterns_meet() -> None:
    """A partition's pattern picks its own line only: dots in names are dots."""
    import re

    here = TopicPartition("a.b-c", 1)
    (pattern,) = partition_patterns([here]).splitlines()
    lines = offset_lines({here: 5, TopicPartition("axb-c", 1): 6, TopicPartition("a.b-c", 11): 7}).splitlines()
    assert [line for line in lines if re.search(pattern, line)] == ["a.b-c:1:5"]


def test_seeds_say_null_for_the_beginning() -> None:
    """`{"offset": 0}` would skip record 0."""
    rows = json.loads(seeds_json("west", {TopicPartition("t", 0): None, TopicPartition("t", 1): 4}))["offsets"]
    assert [row["offset"] for row in rows] == [None, {"offset": 4}] and rows[0]["partition"]["cluster"] == "west"


def test_a_script_stops_at_the_first_failure_and_shows_no_password() -> None:
    """The worker's login is a variable; every line a shell can read."""
    text = shell_script("t", forward_commands(hand()) + rollback_commands(hand()))
    assert "set -euo pipefail" in text and '-u "$CONNECT_USER"' in text
    for line in text.splitlines():
        shlex.split(line, comments=True)


def test_a_relative_pythonpath_means_where_the_script_was_called(tmp_path: Path) -> None:
    """The script works in its own folder; what the caller's paths mean does not change with it."""
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "forward.sh"
    path.write_text(
        shell_script(
            "forward", [ManualStep(Step.COMMIT_GROUPS, (), ('printf "%s %s" "$PYTHONPATH" "$KAFKA_DR_TOPOLOGY"',))]
        )
    )
    told = subprocess.run(
        ["bash", "out/forward.sh"],
        cwd=tmp_path,
        env={"PATH": os.defpath, "PYTHONPATH": "plugins:/abs", "KAFKA_DR_TOPOLOGY": "t.yaml"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == f"{tmp_path}/plugins:/abs {tmp_path}/t.yaml"
    told = subprocess.run(
        ["bash", "out/forward.sh"], cwd=tmp_path, env={"PATH": os.defpath}, capture_output=True, text=True, check=False
    )
    assert "unbound variable" in told.stderr and "PYTHONPATH" in told.stderr


# -- without the source ------------------------------------------------------------------------------------------------


GIVEN_UP = [Step.APPROVE_DATA_LOSS, Step.FENCE_SOURCE, Step.STOP_MIRROR_MAKER, Step.TRANSLATE_OFFSETS]


def given_up(**changes: object) -> ManualContext:
    """An unplanned run that has translated its positions; its source is armed."""
    known = {
        "done": frozenset(GIVEN_UP),
        "begun_steps": frozenset(GIVEN_UP),
        "fence": AclChange(),
        "fence_made": AclChange(),
        "seeds": None,
        "dag_id": "unplanned_failover",
    }
    return hand(**known | changes)


def test_onwards_without_the_source_asks_nothing_of_it() -> None:
    """Commit, look at the target alone, open, route: no block of the source's, nor of a reverse flow; who is watched
    by nobody is said.
    """
    blocks = forward_commands(given_up())
    assert [b.step for b in blocks if b.done] == GIVEN_UP and {b.step for b in blocks}.isdisjoint(
        {Step.FENCE_PRODUCERS, Step.DRAIN_CONSUMERS, Step.SEED_REVERSE_REPLICATION, Step.START_REVERSE_REPLICATION}
    )
    text = commands(blocks)
    order = [
        "--from-file positions-1.csv",
        "diff boundary.txt",
        "mark opening",
        "--remove",
        "mark opened",
        "cp a b",
        "http://app/resume",
        "--describe --all-groups --state",
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert not [
        part for part in ("e:9092", "source.properties", "cut_off", "reverse_offsets", "connectors") if part in text
    ]
    opening = next(b for b in blocks if b.step == Step.OPEN_TARGET)
    assert "no process lists the writes" in " ".join(opening.says)
    assert "The log ends of the target must be unchanged" in opening.says[0]


def test_before_the_stop_a_dead_worker_is_left_alone() -> None:
    """It is asked for a bounded time; the target's still ends are what counts. The fence is said to be impossible,
    and positions end the script.
    """
    blocks = forward_commands(given_up(done=frozenset(), begun_steps=frozenset(), positions=None))
    approve, fence, stop, translate = blocks
    assert "kafka_dr.commands.plan p-1" in approve.says[1] and not approve.commands
    assert "no command here fences the source" in fence.says[0] and not fence.commands
    asked = [line for line in stop.commands if "/stop" in line]
    assert len(asked) == 2 and all("--max-time 20" in line and "|| echo" in line for line in asked)
    assert "until" not in commands([stop])
    assert "diff boundary.txt now.txt" in stop.commands and "e:9092" not in commands(blocks)
    assert translate.commands == ("exit 1",) and "records of the target" in translate.says[0]


@pytest.mark.parametrize(
    ("row", "first"),
    [
        (PLANNED_FAILOVER, Step.FENCE_PRODUCERS),
        (FAILBACK, Step.FENCE_PRODUCERS),
        (UNPLANNED_FAILOVER, Step.APPROVE_DATA_LOSS),
    ],
    ids=lambda value: getattr(value, "dag_id", None),
)
def test_the_steps_are_those_of_the_procedure(
    row: ProcedureDefinition, first: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first one that a person can do in its place, in the procedure's order; what it lacks is not printed."""
    made = hand(dag_id=row.dag_id, done=frozenset(), begun_steps=frozenset())
    expected = list(row.steps[row.steps.index(first) :])
    assert [block.step for block in forward_commands(made)] == expected
    shorter = replace(row, steps=tuple(step for step in row.steps if step != Step.REDIRECT_CLIENTS))
    monkeypatch.setitem(PROCEDURES, row.dag_id, shorter)
    assert [block.step for block in forward_commands(made)] == [
        step for step in expected if step != Step.REDIRECT_CLIENTS
    ]


def test_in_dedicated_mode_the_processes_are_ended_elsewhere() -> None:
    """No worker can be asked, neither onwards nor back."""
    (stop,) = (
        b
        for b in forward_commands(given_up(flow=None, done=frozenset(), positions=None))
        if b.step == Step.STOP_MIRROR_MAKER
    )
    (back,) = rollback_commands(given_up(flow=None))
    assert "connectors" not in commands([stop, back]) and "end its processes" in stop.says[1]
    assert "no command here starts its processes" in " ".join(back.says)


def test_local_topics_get_the_settings_of_their_copies() -> None:
    """Those of the source nobody can read."""
    (commit,) = (b for b in forward_commands(given_up(local_topics=(("orders", 3),))) if b.step == Step.COMMIT_GROUPS)
    assert (
        "the settings of its mirrored topic" in commit.says[1] and "--topic orders --partitions 3" in commit.commands[0]
    )


def test_back_to_a_source_on_which_nothing_was_added_needs_no_source() -> None:
    """Noted first; MirrorMaker 2 last, for its workers may be away."""
    (back,) = rollback_commands(given_up())
    text = commands([back])
    order = [
        "mark returning",
        "http://app/resume || echo",
        "w.source/status",
        "e-%3Ew.source/resume",
        "e-%3Ew.checkpoint/resume",
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert (
        "e:9092" not in text
        and "The run changed no ACL entry on the source" in " ".join(back.says)
        and "/unfence" not in text
    )


def test_back_lifts_what_was_added_on_a_source_that_answers() -> None:
    """And has the fence hook let clients in, if it was asked to keep them out; its silence ends nothing."""
    (back,) = rollback_commands(given_up(fence_made=AclChange((DENY,)), fence_hook="http://net", stopped=()))
    text = commands([back])
    assert text.index("mark returning") < text.index("--remove") < text.index("http://net/unfence")
    assert "only while the source answers" in " ".join(back.says)
    found = shlex.split(next(line for line in back.commands if "/unfence" in line))[7]
    assert found == '{"procedure_id": "p-1", "cluster": "east"}'
    assert "connectors" not in text, "MirrorMaker 2 was not stopped"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"begun_steps": frozenset({Step.APPROVE_DATA_LOSS})}, "This run has not fenced clients"),
        ({"done": frozenset({Step.OPEN_TARGET})}, "The target is open"),
    ],
)
def test_there_is_not_always_a_way_back_to_a_lost_source(changes: dict, said: str) -> None:
    """As in a planned failover."""
    (block,) = rollback_commands(given_up(**changes))
    assert said in block.says[0] and "--remove" not in commands([block])


def test_every_line_without_the_source_can_be_read_by_a_shell() -> None:
    """Onwards and back, from the beginning too."""
    for made in (
        given_up(fence_made=AclChange((DENY,)), fence_hook="http://net"),
        given_up(done=frozenset(), begun_steps=frozenset(), positions=None),
    ):
        for line in shell_script("t", forward_commands(made) + rollback_commands(made)).splitlines():
            shlex.split(line, comments=True)


@pytest.mark.parametrize("loops", [True, False])
def test_the_printed_commands_disable_one_flow_and_enable_the_other(loops: bool) -> None:
    """Run as they stand, but for curl: all other settings stay."""
    made = hand(done=frozenset(BEFORE), start_reverse=True, loops=loops)
    (block,) = [b for b in forward_commands(made) if b.step == Step.START_REVERSE_REPLICATION]
    filters = [line.split(" | ")[1] for line in block.commands if "python -c" in line]
    written = [
        json.loads(
            subprocess.run(
                step, input=b'{"a": "1", "enabled": "x"}', shell=True, capture_output=True, check=True
            ).stdout
        )
        for step in filters
    ]
    assert written == ([{"a": "1", "enabled": "false"}, {"a": "1"}] if loops else [])
    (asked_for_less,) = [b for b in forward_commands(replace(made, start_reverse=False)) if b.step == block.step]
    assert [c for c in block.commands if "/resume" not in c] == list(asked_for_less.commands)
    masked = [
        subprocess.run(step, input=b'{"a": "***"}', shell=True, capture_output=True, check=False) for step in filters
    ]
    assert all(done.returncode and not done.stdout for done in masked), "a masked login is not written back"


def test_a_hook_that_planned_runs_ask_is_asked_by_the_commands_too() -> None:
    """It fences the source before the entries, lets clients to the target, and the rollback reverts both."""
    made = hand(done=frozenset(), begun_steps=frozenset(), planned_hook="http://h", fence_hook="http://h")
    text = commands(forward_commands(replace(made, done=frozenset(), positions=None)))
    assert text.index("http://h/fence") < text.index("--add")
    assert '"cluster": "east"' in text and "unfence" not in text
    opened = replace(made, done=frozenset(BEFORE), positions=(("billing", "orders", 0, 7),), hook_fences_target=True)
    text = commands(forward_commands(opened))
    assert text.index("mark opening") < text.index("http://h/unfence") < text.index("mark opened")
    back = commands(rollback_commands(replace(opened, begun_steps=frozenset({*BEFORE, Step.OPEN_TARGET}))))
    lines = [line for line in back.splitlines() if "http://h/" in line]
    assert ["/fence" in line and '"west"' in line for line in lines] == [True, False]
    assert "http://h/unfence" in lines[1] and '"east"' in lines[1]


def test_entries_of_an_earlier_opening_are_removed_before_the_reverse_flow_runs() -> None:
    """They keep MirrorMaker 2 from writing to the cluster that clients have left."""
    denied = AclEntry("topic", "orders", "literal", "User:mm2", "*", "write", "deny")
    made = hand(done=frozenset(BEFORE), start_reverse=True, writer_denials=AclChange(removes=(denied,)))
    (block,) = [b for b in forward_commands(made) if b.step == Step.START_REVERSE_REPLICATION]
    text = commands([block])
    assert "User:mm2" in text and text.index("--remove") < text.index("w.source/resume")
    assert "source.properties" in text
