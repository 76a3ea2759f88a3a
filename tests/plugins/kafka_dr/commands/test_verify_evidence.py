"""verify_evidence finds one changed byte, in every file and in the journal."""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions.evidence import write_evidence
from kafka_dr.commands import verify_evidence
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.steps.shared.close_procedure import CloseProcedure

FLIPS = 60


@pytest.fixture
def closed(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A procedure that failed after its fence and was closed; its folder has files of several steps."""
    procedure = bench.stopped()
    bench.done(
        procedure,
        "drain_consumers",
        groups=["gr\u00fcppe"],
        positions=procedure.artifacts.save("source_positions", pd.DataFrame({"a": [1]})),
    )
    with pytest.raises(AirflowFailException):
        CloseProcedure(task_id="close_procedure").execute(bench.context())
    return bench


def folder_of(bench: Any) -> Path:
    """Where the evidence lies."""
    return bench.procedure().artifacts.folder


def verified(bench: Any, *options: str) -> int:
    """Run the command."""
    return verify_evidence.main([str(folder_of(bench)), *options])


def test_untouched_evidence_holds(closed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Files, page, digest and journal agree; without the journal that is said."""
    assert verified(closed, "--journal") == 0
    assert "6 files and the page are unchanged" in capsys.readouterr().out
    assert verified(closed) == 0
    assert "not compared with the journal" in capsys.readouterr().out


def test_a_program_reads_the_verdict(closed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON object, with the same exit codes."""
    assert verified(closed, "--json", "--journal") == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["intact"] is True and verdict["journal"] is True and verdict["procedure_id"]
    (folder_of(closed) / "evidence.html").unlink()
    assert verified(closed, "--json") == 1
    assert json.loads(capsys.readouterr().out)["problems"] == ["evidence.html is missing"]


@pytest.mark.parametrize(
    "name", ["evidence.json", "evidence.html", "cut_off-*.parquet", "boundary-*.parquet", "source_positions-*.parquet"]
)
def test_one_changed_byte_is_found(closed: Any, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Any byte of any file, changed in any way; the file is named."""
    evidence = json.loads((folder_of(closed) / "evidence.json").read_text())
    named = {receipt["file"] for receipt in verify_evidence.listed_receipts(evidence)} | {
        "evidence.json",
        "evidence.html",
    }
    (path,) = [found for found in folder_of(closed).glob(name) if found.name in named]
    good, random_ = path.read_bytes(), random.Random(name)
    for _ in range(FLIPS):
        at = random_.randrange(len(good))
        path.write_bytes(good[:at] + bytes([good[at] ^ random_.randrange(1, 256)]) + good[at + 1 :])
        assert verified(closed) == 1, f"byte {at} of {name}"
        assert path.name in capsys.readouterr().out
    path.write_bytes(good)
    assert verified(closed) == 0


@pytest.fixture
def listed(closed: Any) -> Path:
    """The folder of evidence in which a step has also read an old source: two partitions, one of them with records
    that no transaction committed.
    """
    procedure, folder = closed.procedure(), folder_of(closed)
    made = folder / "assess_data_loss-1"
    contents = {
        ("stranded", "orders-0.parquet"): b"some records",
        ("stranded", "orders-1.parquet"): b"others",
        ("uncommitted", "orders-1.parquet"): b"their offsets",
    }
    for (kind, name), content in contents.items():
        (made / kind).mkdir(parents=True, exist_ok=True)
        (made / kind / name).write_bytes(content)
    sums = {place: hashlib.sha256(content).hexdigest() for place, content in contents.items()}
    rows = [
        {
            "file": f"orders-{n}.parquet",
            "sha256": sums["stranded", f"orders-{n}.parquet"],
            "uncommitted_sha256": sums.get(("uncommitted", f"orders-{n}.parquet")),
        }
        for n in (0, 1)
    ]
    loss = procedure.artifacts.save("loss", pd.DataFrame([*rows, dict.fromkeys(rows[0])]).astype("string"))
    evidence = json.loads((folder / "evidence.json").read_text())
    told = {
        "id": "assess_data_loss",
        "state": "done",
        "started_at": evidence["closed_at"],
        "ended_at": evidence["closed_at"],
        "figures": {"loss": vars(loss), "stranded": made.name},
        "failures": [],
        "notes": [],
    }
    evidence["steps"].append(told)
    write_evidence(folder, {**evidence, "digest": digest_of({k: v for k, v in evidence.items() if k != "digest"})})
    return made


@pytest.mark.parametrize(
    "name", ["stranded/orders-0.parquet", "stranded/orders-1.parquet", "uncommitted/orders-1.parquet"]
)
def test_one_changed_byte_of_the_lists_of_records_is_found(
    closed: Any, listed: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one that is gone, and one that nobody wrote; the file is named with its folder."""
    assert verified(closed) == 0 and "10 files and the page are unchanged" in capsys.readouterr().out
    path = listed / name
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert verified(closed) == 1 and capsys.readouterr().out.startswith(
            f"assess_data_loss-1/{name} was changed: SHA-256"
        ), f"byte {at}"
    path.rename(path.with_name("another.parquet"))
    assert verified(closed) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"assess_data_loss-1/{name} is missing",
        f"assess_data_loss-1/{Path(name).parent}/another.parquet is listed in no file of the evidence",
    ]


def test_where_the_loss_was_changed_nothing_in_it_counts(
    closed: Any, listed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It alone is named, whatever it says of other files."""
    (path,) = folder_of(closed).glob("loss-*.parquet")
    path.write_bytes(path.read_bytes() + b"x")
    assert verified(closed) == 1
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith(f"{path.name} was changed: SHA-256")


def test_a_missing_file_is_named(closed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that a step wrote is gone."""
    (path,) = folder_of(closed).glob("cut_off-*.parquet")
    path.unlink()
    assert verified(closed) == 1 and f"{path.name} is missing" in capsys.readouterr().out


@pytest.mark.parametrize("column", ["payload", "kind", "at", "epoch"])
def test_one_changed_entry_of_the_journal_is_found(
    closed: Any, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An entry changed in the database breaks the chain at its place."""
    with sqlite3.connect(closed.folder / "journal.db") as database:
        database.execute(f"update entries set {column} = {column} || '1' where sequence = 3")
    assert verified(closed, "--journal") == 1 and "entry 3 is missing or was changed" in capsys.readouterr().out


def test_evidence_rewritten_with_a_digest_of_its_own_differs_from_the_journal(
    closed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who can write all files can make them agree; the journal still knows."""
    evidence = json.loads((folder_of(closed) / "evidence.json").read_text())
    forged = {**evidence, "reason": "another"}
    forged["digest"] = digest_of({k: v for k, v in forged.items() if k != "digest"})
    write_evidence(folder_of(closed), forged)
    assert verified(closed) == 0
    assert verified(closed, "--journal") == 1 and "another digest" in capsys.readouterr().out


def test_deeply_nested_evidence_was_changed(closed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """No procedure writes such; the command says so instead of ending in an error of its own."""
    path = folder_of(closed) / "evidence.json"
    path.write_text(path.read_text().replace("[]", "[" * 100_000 + "]" * 100_000, 1))
    assert verified(closed) == 1 and "evidence.json was changed" in capsys.readouterr().out


def test_no_evidence_is_not_good_evidence(tmp_path: Path) -> None:
    """A folder without evidence.json cannot be verified."""
    assert verify_evidence.main([str(tmp_path)]) == 2
