"""The plan, and what is left of a procedure, from its journal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from kafka_dr.actions.old_source.armed_fence import arm_fence, telling_entries
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.commands import plan as command
from kafka_dr.commands.manual_actions import record_manual_action
from kafka_dr.domain.fencing.armed_fence import armed_fences
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import KafkaUnavailable, ReadBackFailed, Refusal
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.hooks.site.dns_servers import DnsLogin
from kafka_dr.steps.planned.commit_groups import CommitGroups
from kafka_dr.steps.shared.redirect_clients import RedirectClients
from kafka_dr.vocabulary import Entry, Step

from tests.file_modes import PRIVATE, modes_in, umask
from tests.support.bench import FENCE, ORDERS, TARGET_FENCE
from tests.support.facts import figures_of, tell

ID = "planned_failover-r1"


@pytest.fixture
def run(bench: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command, with the bench's connections; returns its exit code and what it printed."""

    def run(*arguments: str) -> tuple[int, str]:
        code = command.main(arguments)
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def test_the_plan_as_text(bench: Any, run: Any) -> None:
    """What the approver read, and how far the procedure is."""
    bench.planned()
    code, text = run(ID)
    assert code == 0 and "Move all clients from **primary** to **standby**" in text
    assert "approve_failover             done" in text and "fence_producers              -" in text
    assert "confirm_source_lost" not in text, "a step of another procedure"


def test_the_plan_for_a_program(bench: Any, run: Any) -> None:
    """The plan that was approved, its digest, and the state of each step."""
    procedure = bench.planned()
    document = json.loads(run(ID, "--json")[1])
    move = procedure.progress.move()
    assert (document["plan"], document["plan_digest"]) == (move.whole_plan, move.plan_digest)
    states = {step["id"]: step["state"] for step in document["steps"]}
    assert states["approve_failover"] == "done" and states["fence_producers"] is None


def test_a_program_reads_that_there_is_no_plan_yet(bench: Any, run: Any) -> None:
    """The forecast writes it."""
    bench.opened()
    code, text = run(ID, "--json")
    assert code == 0 and (json.loads(text)["plan"], json.loads(text)["plan_digest"]) == (None, None)


def test_a_closed_procedure_has_no_step_that_is_only_begun(bench: Any, run: Any) -> None:
    """close_procedure ends with an entry of its own kind."""
    procedure = bench.planned()
    for kind, payload in ((Entry.INTENT, {"try": 1}), (Entry.CLOSED, {"outcome": "failed", "digest": "d" * 64})):
        bench.journal.append(procedure.id, Step.CLOSE_PROCEDURE, kind, procedure.authority.epoch, payload)
    assert "close_procedure              done" in run(ID)[1]


def test_by_its_clusters(bench: Any, run: Any) -> None:
    """Who does not know the id knows the clusters."""
    bench.planned()
    assert run("--source", "primary", "--target", "standby") == run(ID)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "No procedure is named"),
        (("nobody",), "The journal has no procedure"),
        (("nobody", "--commands"), "The journal has no procedure"),
    ],
)
def test_what_is_unknown_is_refused(bench: Any, run: Any, arguments: tuple[str, ...], said: str) -> None:
    """With what to do."""
    code, text = run(*arguments)
    assert code == 2 and said in text


def test_without_a_plan_there_are_no_commands(bench: Any, run: Any, tmp_path: Path) -> None:
    """Nothing was touched yet, and nobody approved anything."""
    bench.opened()
    code, text = run(ID, "--commands", "--out", str(tmp_path / "out"))
    assert code == 2 and "There is no plan yet" in text and not (tmp_path / "out").exists()


def test_commands_after_the_fence(bench: Any, run: Any, tmp_path: Path) -> None:
    """The way back lifts what the journal's intents name; the way on stops at the translation."""
    procedure = bench.planned()
    procedure.authority.write(Step.FENCE_PRODUCERS, Entry.INTENT, {"adds_acl_entries": [vars(FENCE)]})
    code, text = run(ID, "--commands", "--out", str(tmp_path / "out"))
    back, on = ((tmp_path / "out" / name).read_text() for name in ("to_return.sh", "to_go_on.sh"))
    assert code == 0 and back in text and on in text
    assert "--remove --force --deny-principal User:app" in back and "source.properties" in back
    assert "connectors" not in back
    assert on.rstrip().endswith("exit 1")


def test_commands_before_the_opening(bench: Any, run: Any, tmp_path: Path) -> None:
    """Seeds are one below the boundary, the target's denials are the plan's, the routing record is the target's."""
    bench.stopped()
    with umask(0):
        code, _ = run(ID, "--commands", "--out", str(tmp_path / "out"))
    out = tmp_path / "out"
    assert code == 0 and modes_in(out) == PRIVATE
    assert json.loads((out / "reverse_offsets.json").read_text())["offsets"] == [
        {"partition": {"cluster": "standby", "partition": 0, "topic": "orders"}, "offset": {"offset": 9}}
    ]
    assert (out / "cut_off.txt").read_text() == "orders:0:10\n" == (out / "boundary.txt").read_text()
    found = json.loads((out / "routing.json").read_text())
    assert found == {"cluster": "standby", "bootstrap_servers": "kafka_standby", "version": 1}
    assert "--remove --force --deny-principal 'User:*'" in (out / "to_go_on.sh").read_text()


def test_opening_by_hand_is_the_point_of_no_return(bench: Any, run: Any) -> None:
    """From then on no step returns by itself, and the journal says who opened."""
    procedure = bench.planned()
    code, text = run(ID, "--by-hand", "opening", "--as", "carol")
    assert code == 0 and "carol opens" in text
    assert bench.entries(Step.OPEN_TARGET)[0].payload["by_hand"] == "carol"
    bench.procedure().progress.refuse_if_going_back()
    assert procedure.progress.began(Step.OPEN_TARGET) is not None


def test_returning_by_hand_stops_every_step_forward(bench: Any, run: Any) -> None:
    """Airflow, when it is back, goes no step further."""
    bench.planned()
    assert run(ID, "--by-hand", "returning", "--as", "carol")[0] == 0
    with pytest.raises(Refusal, match="This run returns to the source"):
        bench.procedure().progress.refuse_if_going_back()
    assert run(ID, "--by-hand", "opening", "--as", "carol")[0] == 2


def test_opened_by_hand_is_read_back_before_it_is_noted(bench: Any, run: Any) -> None:
    """While the target still refuses clients nothing is noted; afterwards the opening is done, and cannot be taken
    back.
    """
    bench.stopped()
    assert run(ID, "--by-hand", "opened", "--as", "carol")[0] == 2, "the opening was never begun"
    assert run(ID, "--by-hand", "opening", "--as", "carol")[0] == 0
    code, text = run(ID, "--by-hand", "opened", "--as", "carol")
    assert code == 2 and "not removed: " in text and figures_of(bench.procedure(), Step.OPEN_TARGET) is None
    bench.clusters["standby"].acls.discard(TARGET_FENCE)
    assert run(ID, "--by-hand", "opened", "--as", "carol")[0] == 0
    assert figures_of(bench.procedure(), Step.OPEN_TARGET)["by_hand"] == "carol"
    assert run(ID, "--by-hand", "returning", "--as", "carol")[0] == 2


def test_a_position_that_is_not_there_is_not_noted(bench: Any, run: Any) -> None:
    """What the person's tool did not commit is named."""
    procedure = bench.planned(groups=("billing",))
    bench.stopped_after_drain(procedure, ["billing"])
    frame = pd.DataFrame(
        [
            {
                "group": "billing",
                "topic": "orders",
                "partition": 0,
                "target_topic": "orders",
                "target_position": 7,
                "class": "END",
            }
        ]
    )
    tell(
        procedure,
        Step.TRANSLATE_OFFSETS,
        Entry.OUTCOME,
        {"translation": procedure.artifacts.save("positions", frame), "exact": 1, "positions": 1},
    )
    bench.clusters["standby"].acls.discard(TARGET_FENCE)
    hand = replace(
        command.hand_of(bench.procedure()),
        done=frozenset({Step.TRANSLATE_OFFSETS, Step.SEED_REVERSE_REPLICATION}),
        positions=(("billing", "orders", 0, 7),),
    )
    record_manual_action(bench.procedure(), hand, "opening", "carol")
    with pytest.raises(
        ReadBackFailed, match="The target differs from the plan; open_target was not recorded as done"
    ) as failed:
        record_manual_action(bench.procedure(), hand, "opened", "carol")
    assert "billing on orders-0 is at None, not at 7" in failed.value.seen
    bench.clusters["standby"].committed["billing"] = {ORDERS: Position(7)}
    record_manual_action(bench.procedure(), hand, "opened", "carol")
    assert figures_of(bench.procedure(), Step.COMMIT_GROUPS)["positions"] == 1


def test_by_hand_needs_a_name(bench: Any, run: Any) -> None:
    """Nobody is not enough."""
    bench.planned()
    assert run(ID, "--by-hand", "opening")[0] == 2 and bench.entries(Step.OPEN_TARGET) == []


LOST = "unplanned_failover-r1"


@pytest.fixture
def make_lost_run(make_bench: Any) -> Any:
    """Makes the bench of an unplanned run for the command."""

    def make(**topology: Any) -> Any:
        return make_bench(dag_id="unplanned_failover", **topology)

    return make


def translated(bench: Any, remote: str = "orders") -> None:
    """One position of billing is translated, and nothing committed; of the source not even a client can be made."""
    procedure = bench.given_up(remote, groups=("billing",))
    ends = procedure.artifacts.save("boundary", partitions_frame({TopicPartition(remote, 0): 10}, "offset"))
    procedure.authority.write(Step.STOP_MIRROR_MAKER, Entry.INTENT, {"stops_connectors": ["p.source", "p.checkpoint"]})
    bench.done(
        procedure,
        Step.STOP_MIRROR_MAKER,
        boundary=ends,
        replicated=procedure.artifacts.save("replicated", partitions_frame({}, "offset")),
    )
    frame = pd.DataFrame(
        [
            {
                "group": "billing",
                "topic": "orders",
                "partition": 0,
                "position": 9,
                "target_topic": remote,
                "target_position": 7,
                "class": "SYNC",
            }
        ]
    )
    bench.done(
        procedure,
        Step.TRANSLATE_OFFSETS,
        digest="t" * 64,
        exact=1,
        positions=1,
        translation=procedure.artifacts.save("positions", frame),
    )
    del bench.clusters["primary"]


def test_the_loss_as_text(make_lost_run: Any, run: Any) -> None:
    """As the approver read it, with this procedure's own steps."""
    make_lost_run().given_up()
    code, text = run(LOST)
    assert (
        code == 0
        and "without the records that only **primary** has" in text
        and "approve_data_loss            done" in text
    )
    assert "open_target                  -" in text
    assert "forecast " not in text, "a step of another procedure"


@pytest.mark.parametrize("confirmed", [False, True])
def test_without_an_inventory_there_are_no_commands(make_lost_run: Any, run: Any, confirmed: bool) -> None:
    """Nothing was touched yet, and nobody approved anything."""
    bench = make_lost_run()
    procedure = bench.opened()
    if confirmed:
        bench.done(procedure, Step.CONFIRM_SOURCE_LOST, state="lost")
    assert "has no plan yet: assess_data_loss is not done" in run(LOST)[1]
    code, text = run(LOST, "--commands")
    assert code == 2 and "There is no plan yet. Seen: assess_data_loss is not done" in text


def test_commands_without_the_source(make_lost_run: Any, run: Any, tmp_path: Path) -> None:
    """Positions, opening and routing are the target's; no file and no command is about the source or a reverse flow."""
    bench, out = make_lost_run(), tmp_path / "out"
    translated(bench)
    code, text = run(LOST, "--commands", "--out", str(out))
    on, back = ((out / name).read_text() for name in ("to_go_on.sh", "to_return.sh"))
    assert code == 0 and on in text and back in text
    assert {file.name for file in out.iterdir()} == {
        "to_go_on.sh",
        "to_return.sh",
        "groups.txt",
        "target_partitions.txt",
        "boundary.txt",
        "positions-1.csv",
        "routing.json",
    }
    assert (out / "positions-1.csv").read_text() == "orders,0,7\n"
    assert json.loads((out / "routing.json").read_text())["cluster"] == "standby"
    assert "--group billing" in on and "--remove --force --deny-principal 'User:*'" in on
    assert "1 of 1 positions are exact" in on
    assert "kafka_primary" not in text and "reverse" not in on
    assert (
        "kafka-acls.sh" not in back
        and "p.source/resume" in back
        and "The run changed no ACL entry on the source" in back
    )


def test_commands_under_default_naming(make_lost_run: Any, run: Any, tmp_path: Path) -> None:
    """Groups begin at the beginning of the topics that clients will write to."""
    bench = make_lost_run(naming={"policy": "default", "separator": "."})
    translated(bench, "primary.orders")
    assert run(LOST, "--commands", "--out", str(tmp_path / "out"))[0] == 0
    assert (tmp_path / "out" / "positions-1.csv").read_text() == "orders,0,0\nprimary.orders,0,7\n"


def test_commands_before_the_translation_end_there(make_lost_run: Any, run: Any, tmp_path: Path) -> None:
    """Also in dedicated mode, where no worker can be asked; what the source's fence hook was asked is taken back on
    the way back.
    """
    flow = {
        "source": "primary",
        "target": "standby",
        "stop_hook": "hook",
        "connectors": {"source": "p.source", "checkpoint": "p.checkpoint"},
    }
    bench = make_lost_run(flows=[flow], fence_hook={"connection": "net"})
    procedure = bench.given_up()
    procedure.authority.write(Step.FENCE_SOURCE, Entry.INTENT, {"asks_fence_hook": "primary"})
    procedure.authority.write(Step.FENCE_SOURCE, Entry.INTENT, {"adds_acl_entries": [vars(FENCE)]})
    assert run(LOST, "--commands", "--out", str(tmp_path / "out"))[0] == 0
    on, back = ((tmp_path / "out" / name).read_text() for name in ("to_go_on.sh", "to_return.sh"))
    assert on.rstrip().endswith("exit 1") and "end its processes" in on
    assert "http://net/unfence" in back and "--remove --force --deny-principal User:app" in back
    assert "source.properties" in back


def test_a_loss_that_has_grown_is_said_to_who_reviews_by_hand(make_lost_run: Any, run: Any, tmp_path: Path) -> None:
    """As the gate would."""
    bench = make_lost_run()
    translated(bench)
    procedure = bench.procedure()
    frame = pd.DataFrame(
        {"topic": ["new"], "partition": [0], "from_offset": pd.array([None], "Int64"), "to_offset": [5]}
    )
    bench.done(procedure, Step.WATCH_OLD_SOURCE, accepted=procedure.artifacts.save("accepted", frame))
    assert run(LOST, "--commands", "--out", str(tmp_path / "out"))[0] == 0
    assert (
        "More is lost of new-0 than was approved: no loss was approved for this partition"
        in (tmp_path / "out" / "to_go_on.sh").read_text()
    )


def test_opened_by_hand_without_the_source(make_lost_run: Any, run: Any) -> None:
    """Positions and denials are read back; no step of a planned failover is noted. Airflow goes on with the
    redirect.
    """
    bench = make_lost_run()
    translated(bench)
    target = bench.clusters["standby"]
    assert run(LOST, "--by-hand", "opening", "--as", "carol")[0] == 0
    code, text = run(LOST, "--by-hand", "opened", "--as", "carol")
    assert code == 2 and "billing on orders-0 is at None, not at 7" in text
    target.committed["billing"] = {ORDERS: Position(7)}
    assert "not removed: " in run(LOST, "--by-hand", "opened", "--as", "carol")[1]
    target.acls.discard(TARGET_FENCE)
    assert run(LOST, "--by-hand", "opened", "--as", "carol")[0] == 0
    assert bench.entries(Step.SEED_REVERSE_REPLICATION) == []
    assert figures_of(bench.procedure(), Step.COMMIT_GROUPS)["by_hand"] == "carol"
    RedirectClients(task_id=Step.REDIRECT_CLIENTS.value).execute(bench.context())
    assert figures_of(bench.procedure(), Step.REDIRECT_CLIENTS)["clients_see"]["cluster"] == "standby"


def test_returning_by_hand_ends_the_watch_over_the_source(make_lost_run: Any, run: Any) -> None:
    """It is its clients' again: nobody fences it any more."""
    bench = make_lost_run()
    procedure = bench.given_up()
    arm_fence(procedure, Step.FENCE_SOURCE, ["orders"])
    assert run(LOST, "--by-hand", "returning", "--as", "carol")[0] == 0
    assert armed_fences(telling_entries(bench.journal)) == ()
    with pytest.raises(Refusal, match="This run returns to the source"):
        bench.procedure().progress.refuse_if_going_back()


REFUSED, CONTENT = "REFUSED", "CONTENT"
DEFAULT_NAMING = {"naming": {"policy": "default", "separator": "."}}


def translated_planned(bench: Any, remote: str, came: bool, *rows: tuple[str, int | None, str]) -> Any:
    """A planned run before its commit, with these groups, target positions and classes; group `left` is excluded."""
    bench.clusters["primary"].committed["left"] = {ORDERS: Position(7)} if came else {}
    procedure = bench.planned(remote=remote, excluded={"left": "boundary"})
    at = TopicPartition(remote, 0)
    bench.clusters["standby"].log_ends[at] = 10
    boundary = procedure.artifacts.save("boundary", partitions_frame({at: 10} if came else {}, "offset"))
    cut_off = procedure.artifacts.save("cut_off", partitions_frame({ORDERS: 10}, "offset"))
    bench.done(procedure, Step.FENCE_PRODUCERS, cut_off=cut_off)
    bench.done(procedure, Step.DRAIN_CONSUMERS, groups=[])
    bench.done(procedure, Step.STOP_MIRROR_MAKER, boundary=boundary)
    columns = {"group": [r[0] for r in rows], "topic": "orders", "partition": 0, "position": 5, "target_topic": remote}
    frame = pd.DataFrame(
        {**columns, "target_position": pd.array([r[1] for r in rows], "Int64"), "class": [r[2] for r in rows]}
    )
    found = {"digest": "t" * 64, "exact": len(rows), "positions": len(rows), "holes": [], "cut": []}
    bench.done(procedure, Step.TRANSLATE_OFFSETS, translation=procedure.artifacts.save("positions", frame), **found)
    bench.done(procedure, Step.REVIEW_TRANSLATION, asked=False)
    return procedure


@pytest.mark.parametrize(
    ("topology", "remote", "expected"),
    [
        ({}, "orders", ["a,orders,0,4", "left,orders,0,10", "stale,orders,0,3"]),
        (
            DEFAULT_NAMING,
            "primary.orders",
            [
                *("a,orders,0,3", "a,primary.orders,0,4", "left,orders,0,3", "left,primary.orders,0,10"),
                *("stale,orders,0,3", "stale,primary.orders,0,3"),
            ],
        ),
    ],
    ids=["identity", "local topics"],
)
def test_printed_positions_are_those_that_commit_groups_writes(
    make_bench: Any,
    tmp_path: Path,
    topology: dict[str, Any],
    remote: str,
    expected: list[str],
) -> None:
    """An excluded group by its policy, a refused position back at the log start, a local topic from its log start."""
    bench, at = make_bench(**topology), TopicPartition(remote, 0)
    standby = bench.clusters["standby"]
    standby.log_starts |= {at: 3, ORDERS: 3}
    standby.committed["stale"] = {at: Position(8)}
    procedure = translated_planned(bench, remote, True, ("a", 4, CONTENT), ("stale", None, REFUSED))
    assert command.main([ID, "--commands", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "positions-1.csv").read_text().splitlines() == expected
    ledger = procedure.artifacts.load(CommitGroups(task_id="commit_groups").act(procedure, bench.context()).ledger)
    rows = ledger[["group", "topic", "partition", "wanted"]].to_numpy().tolist()
    assert [",".join(map(str, row)) for row in rows] == expected


def test_a_topic_that_never_came_is_printed_with_its_groups(bench: Any, run: Any, tmp_path: Path) -> None:
    """It is made first, and its groups begin at 0; printing makes nothing."""
    procedure = translated_planned(bench, "orders", False, ("a", None, REFUSED))
    del bench.clusters["standby"].partitions["orders"]
    assert run(ID, "--commands", "--out", str(tmp_path))[0] == 0
    assert "--create --if-not-exists --topic orders --partitions 1" in (tmp_path / "to_go_on.sh").read_text()
    assert (tmp_path / "positions-1.csv").read_text().splitlines() == ["orders,0,0"]
    assert "orders" not in bench.clusters["standby"].partitions
    CommitGroups(task_id="commit_groups").act(procedure, bench.context())
    assert bench.clusters["standby"].committed["a"] == {ORDERS: Position(0)}


def test_without_the_target_only_the_way_back_is_printed(bench: Any, run: Any, tmp_path: Path) -> None:
    """What would be committed depends on it: the way on ends there, and nothing is noted as opened."""
    translated_planned(bench, "orders", True, ("a", 4, CONTENT))
    bench.clusters["standby"].away = KafkaUnavailable("asking standby failed", "no answer\ntouch forged", "look at it")
    assert run(ID, "--commands", "--out", str(tmp_path))[0] == 0
    on = (tmp_path / "to_go_on.sh").read_text()
    assert on.rstrip().endswith("exit 1") and "asking standby failed" in on and "open_target" not in on
    assert "\ntouch" not in on, "what a cluster answers became a command"
    assert "returning" in (tmp_path / "to_return.sh").read_text()
    assert run(ID, "--by-hand", "opening", "--as", "carol")[0] == 0
    code, text = run(ID, "--by-hand", "opened", "--as", "carol")
    assert code == 2 and "asking standby failed" in text


def test_a_dns_name_is_redirected_by_a_script(make_bench: Any, run: Any, tmp_path: Path) -> None:
    """The script names the zone's server and what the name answers for the target, and holds no secret."""
    names = {"zone": "example.com", "name": "kafka.example.com"}
    answers = {"primary": "in-east.example.com", "standby": "in-west.example.com"}
    bench = make_bench(routing={"kind": "dns", "connection": "zone", "answers": answers, **names})
    login = DnsLogin("127.0.0.1", 9, "key.", "aGlkZGVu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(bench.connections), "dns", lambda *_: login, raising=False)
        bench.stopped()
        code, text = run(ID, "--commands", "--out", str(tmp_path / "out"))
    script = (tmp_path / "out" / "redirect.nsupdate").read_text()
    assert code == 0 and 'nsupdate -k "$DNS_KEY_FILE" redirect.nsupdate' in text
    assert script.startswith("server 127.0.0.1 9\nzone example.com.\n") and "aGlkZGVu" not in script
    assert "update add kafka.example.com. 30 CNAME in-west.example.com." in script
    assert '\\"cluster\\":\\"standby\\"' in script
