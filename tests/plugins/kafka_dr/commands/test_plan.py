"""The plan, and what is left of a procedure, from its journal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kafka_dr.commands import plan as command
from kafka_dr.commands.hand_marks import note
from kafka_dr.errors import ReadBackFailed, Refusal
from kafka_dr.hooks.group_requests import Position
from kafka_dr.vocabulary import Entry, Step
from tests.plugins.kafka_dr.conftest import FENCE, ORDERS, TARGET_FENCE


ID = "planned_failover-r1"


@pytest.fixture
def run(bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command, with the bench's connections; returns its exit code and what it printed."""
    monkeypatch.setattr(command, "Connections", lambda: bench.connections)

    def run(*arguments: str) -> tuple[int, str]:
        code = command.main(arguments)
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def test_the_plan_as_text(bench: Any, run: Any) -> None:
    """What the approver read, and how far the procedure is."""
    bench.planned()
    code, text = run(ID)
    assert code == 0 and "Move all clients from **primary** to **standby**" in text and "approve_failover             done" in text and "fence_producers              -" in text
    assert "confirm_source_lost" not in text, "a step of another procedure"


def test_by_its_clusters(bench: Any, run: Any) -> None:
    """Who does not know the id knows the clusters."""
    bench.planned()
    assert run("--source", "primary", "--target", "standby") == run(ID)


@pytest.mark.parametrize(("arguments", "said"), [((), "Which procedure?"), (("nobody",), "knows no procedure"), (("nobody", "--commands"), "knows no procedure")])
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
    procedure.write(Step.FENCE_PRODUCERS, Entry.INTENT, {"adds_acl_entries": [vars(FENCE)]})
    code, text = run(ID, "--commands", "--out", str(tmp_path / "out"))
    back, on = ((tmp_path / "out" / name).read_text() for name in ("to_return.sh", "to_go_on.sh"))
    assert code == 0 and back in text and on in text
    assert "--remove --force --deny-principal User:app" in back and "source.properties" in back and "connectors" not in back
    assert on.rstrip().endswith("exit 1")


def test_commands_before_the_opening(bench: Any, run: Any, tmp_path: Path) -> None:
    """Seeds are one below the boundary, the target's denials are the plan's, the routing record is the target's."""
    bench.stopped()
    code, _ = run(ID, "--commands", "--out", str(tmp_path / "out"))
    out = tmp_path / "out"
    assert code == 0
    assert json.loads((out / "reverse_offsets.json").read_text())["offsets"] == [{"partition": {"cluster": "standby", "partition": 0, "topic": "orders"}, "offset": {"offset": 9}}]
    assert (out / "cut_off.txt").read_text() == "orders:0:10\n" == (out / "boundary.txt").read_text()
    assert json.loads((out / "routing.json").read_text()) == {"cluster": "standby", "bootstrap_servers": "kafka_standby", "version": 1}
    assert "--remove --force --deny-principal 'User:*'" in (out / "to_go_on.sh").read_text()


def test_opening_by_hand_is_the_point_of_no_return(bench: Any, run: Any) -> None:
    """From then on no step returns by itself, and the journal says who opened."""
    procedure = bench.planned()
    code, text = run(ID, "--by-hand", "opening", "--as", "carol")
    assert code == 0 and "carol opens" in text
    assert bench.entries(Step.OPEN_TARGET)[0].payload["by_hand"] == "carol"
    bench.procedure().refuse_if_going_back()
    assert procedure.began(Step.OPEN_TARGET) is not None


def test_returning_by_hand_stops_every_step_forward(bench: Any, run: Any) -> None:
    """Airflow, when it is back, goes no step further."""
    bench.planned()
    assert run(ID, "--by-hand", "returning", "--as", "carol")[0] == 0
    with pytest.raises(Refusal, match="given back"):
        bench.procedure().refuse_if_going_back()
    assert run(ID, "--by-hand", "opening", "--as", "carol")[0] == 2


def test_opened_by_hand_is_read_back_before_it_is_noted(bench: Any, run: Any) -> None:
    """While the target still refuses clients nothing is noted; afterwards the opening is done, and cannot be taken back."""
    bench.stopped()
    assert run(ID, "--by-hand", "opened", "--as", "carol")[0] == 2, "the opening was never begun"
    assert run(ID, "--by-hand", "opening", "--as", "carol")[0] == 0
    code, text = run(ID, "--by-hand", "opened", "--as", "carol")
    assert code == 2 and "still there" in text and bench.procedure().outcome(Step.OPEN_TARGET) is None
    bench.clusters["standby"].acls.discard(TARGET_FENCE)
    assert run(ID, "--by-hand", "opened", "--as", "carol")[0] == 0
    assert bench.procedure().figures(Step.OPEN_TARGET)["by_hand"] == "carol"
    assert run(ID, "--by-hand", "returning", "--as", "carol")[0] == 2


def test_a_position_that_is_not_there_is_not_noted(bench: Any, run: Any) -> None:
    """What the person's tool did not commit is named."""
    procedure = bench.planned(groups=("billing",))
    bench.stopped_after_drain(procedure, ["billing"])
    frame = pd.DataFrame([{"group": "billing", "topic": "orders", "partition": 0, "target_topic": "orders", "target_position": 7, "class": "END"}])
    procedure.write(Step.TRANSLATE_OFFSETS, Entry.OUTCOME, {"translation": procedure.keep("positions", frame), "exact": 1, "positions": 1})
    bench.clusters["standby"].acls.discard(TARGET_FENCE)
    hand = replace(command.hand_of(bench.procedure()), done=frozenset({Step.TRANSLATE_OFFSETS, Step.SEED_REVERSE_REPLICATION}), positions=(("billing", "orders", 0, 7),))
    note(bench.procedure(), hand, "opening", "carol")
    with pytest.raises(ReadBackFailed, match="not what it was to become") as failed:
        note(bench.procedure(), hand, "opened", "carol")
    assert "billing on orders-0 is at None, not at 7" in failed.value.seen
    bench.clusters["standby"].committed["billing"] = {ORDERS: Position(7)}
    note(bench.procedure(), hand, "opened", "carol")
    assert bench.procedure().figures(Step.COMMIT_GROUPS)["positions"] == 1


def test_by_hand_needs_a_name(bench: Any, run: Any) -> None:
    """Nobody is not enough."""
    bench.planned()
    assert run(ID, "--by-hand", "opening")[0] == 2 and bench.entries(Step.OPEN_TARGET) == []
