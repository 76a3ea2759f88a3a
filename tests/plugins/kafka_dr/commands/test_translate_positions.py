"""The command: its exit codes, and what it writes and prints."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from kafka_dr.commands.translate_positions import main

from tests.support.bench import ORDERS
from tests.support.readers.moved_clients import MovedClients, positions_at, readers_at

ID = "planned_failover-r1"


@pytest.fixture
def moved(bench: Any, without_spark: Any, monkeypatch: pytest.MonkeyPatch) -> MovedClients:
    """Clients have moved, and write on the target."""
    return MovedClients(bench, without_spark(bench), monkeypatch)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command on rows, from Parquet to JSON; returns exit code, rows written (None without a file), and texts."""

    def run(rows: pd.DataFrame, procedure_id: str = ID) -> tuple[int, list[dict[str, Any]] | None, str, str]:
        given, made = tmp_path / "in.parquet", tmp_path / "out.json"
        rows.to_parquet(given)
        code = main([procedure_id, str(given), str(made)])
        said = capsys.readouterr()
        return code, json.loads(made.read_text()) if made.exists() else None, said.out, said.err

    return run


def test_a_program_reads_the_result(moved: MovedClients, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counts by class, as one JSON object."""
    positions_at(5).to_parquet(tmp_path / "in.parquet")
    assert main([ID, str(tmp_path / "in.parquet"), str(tmp_path / "out.json"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["positions"], result["classes"], result["exact"]) == (1, {"CONTENT": 1}, 1)
    assert result["without_offset"] == []


def test_every_position_with_an_offset_is_0(moved: MovedClients, run: Any) -> None:
    """A row each, in order, with what the reader's owner needs."""
    code, rows, out, told = run(positions_at(5))
    assert code == 0 and rows == [
        {
            "topic": "orders",
            "partition": 0,
            "offset": 5,
            "target_topic": "orders",
            "target_offset": 7,
            "class": "CONTENT",
            "exact": True,
            "bound": 0,
            "evidence": rows[0]["evidence"],
            "clamped": None,
        }
    ]
    assert "1 position: CONTENT 1; exact: 1; without an offset: 0" in out
    assert "INFO 1 position of 1 reader on 1 partition" in told


def test_a_position_without_an_offset_is_1(moved: MovedClients, run: Any) -> None:
    """The file is written nonetheless, and the first few are named."""
    moved.source.log_starts[ORDERS] = 9
    code, rows, out, told = run(readers_at(*range(11)))
    assert code == 1 and [row["target_offset"] for row in rows] == [None] * 9 + [11, 12]
    assert "r0: orders-0 at 0: retention deleted" in told and "without an offset: 9" in out


def test_no_position_is_0(moved: MovedClients, run: Any) -> None:
    """An empty list."""
    code, rows, out, _ = run(positions_at())
    assert (code, rows) == (0, []) and "0 positions; exact: 0; without an offset: 0" in out


def test_what_is_refused_is_2_and_writes_nothing(moved: MovedClients, run: Any) -> None:
    """An unknown procedure, a bad position, a cluster that does not answer."""
    assert run(positions_at(5), "nobody")[:2] == (2, None)
    code, rows, _, told = run(positions_at(12))
    assert (code, rows) == (2, None) and "nothing was written: BadInput: Positions lie beyond the cut-off" in told
    moved.target.away = True
    assert run(positions_at(5))[:2] == (2, None)


@pytest.mark.parametrize(("given", "made"), [("in.csv", "o.json"), ("in.json", "o.txt"), ("in.json", "no/o.json")])
def test_files_that_cannot_be_are_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, given: str, made: str
) -> None:
    """Refused before the journal is opened."""
    monkeypatch.delenv("KAFKA_DR_TOPOLOGY", raising=False)
    (tmp_path / given).write_text("[]")
    assert main([ID, str(tmp_path / given), str(tmp_path / made)]) == 2
    assert "topology" not in capsys.readouterr().err


def test_the_input_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file cannot be both."""
    path = tmp_path / "positions.json"
    path.write_text("[]")
    assert main([ID, str(path), str(path)]) == 2 and path.read_text() == "[]"
    assert "or it is the input" in capsys.readouterr().err


def test_many_positions_are_not_taken_one_by_one(moved: MovedClients, run: Any) -> None:
    """As many readers stand on one partition; ten times as many take no more time each."""
    seconds = []
    for count in (20_000, 200_000):
        readers = pd.DataFrame({"topic": "orders", "partition": 0, "offset": np.arange(count) % 11})
        began = time.process_time()
        code, rows, _, _ = run(readers.assign(reader="r" + readers.index.astype(str)))
        seconds.append((time.process_time() - began) / count)
        assert code == 0 and [row["target_offset"] for row in rows[:11]] == [0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12]
        assert len(rows) == count
    assert seconds[1] < 2 * seconds[0]
