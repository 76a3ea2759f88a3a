"""period_report reads a folder of evidence, names what it cannot read, and writes HTML and JSON."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.commands import period_report
from kafka_dr.domain.drill.section import drill_section

from tests.support.drills.canary_drill import evidence_with, full_story

YEAR = ("--from", "2026-01-01", "--to", "2026-12-31")
NAME = "period_report_2026-01-01_2026-12-31"


def put_evidence(folder: Path, name: str, evidence: dict[str, Any]) -> None:
    """Write evidence as close_procedure does."""
    (folder / name).mkdir()
    (folder / name / "evidence.json").write_text(json.dumps(evidence, indent=2, ensure_ascii=False))


def reported(folder: Path) -> Any:
    """What the report says."""
    return json.loads((folder / f"{NAME}.json").read_text())


def test_an_empty_folder_makes_an_empty_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the paths of both files are printed."""
    assert period_report.main([str(tmp_path), *YEAR]) == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / f"{NAME}.json"), str(tmp_path / f"{NAME}.html")]
    assert reported(tmp_path)["moves"] == [] and "0 drills" in (tmp_path / f"{NAME}.html").read_text()
    assert (tmp_path / f"{NAME}.html").stat().st_mode & 0o077 == 0


def test_unreadable_evidence_is_named_and_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, in the JSON and on the page; what can be read is listed."""
    put_evidence(tmp_path, "good", evidence_with(drill_section(full_story())))
    for name, text in {"cut": '{"procedure_id": ', "deep": "[" * 100_000, "list": "[]", "bytes": "\udcff"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "evidence.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "evidence.json").mkdir()
    (tmp_path / "other.txt").write_text("no folder")
    assert period_report.main([str(tmp_path), *YEAR]) == 0
    told, said = reported(tmp_path), capsys.readouterr().err
    assert [one["procedure_id"] for one in told["drills"]] == [full_story().drill_id]
    assert [one["file"] for one in told["unread"]] == [
        f"{n}/evidence.json" for n in ("bytes", "cut", "deep", "folder", "list")
    ]
    assert all(one["file"] in said and one["file"] in (tmp_path / f"{NAME}.html").read_text() for one in told["unread"])


def test_flows_that_readiness_watches_are_listed_without_drill(tmp_path: Path) -> None:
    """By the documents of readiness_check; one that is torn is passed over."""
    (tmp_path / "readiness").mkdir()
    (tmp_path / "readiness" / "a-to-b.json").write_text(json.dumps({"source": "a", "target": "b"}))
    (tmp_path / "readiness" / "torn.json").write_text("{")
    period_report.main([str(tmp_path), *YEAR])
    assert [(flow["source"], flow["overdue"]) for flow in reported(tmp_path)["flows"]] == [("a", True)]


def test_the_folder_of_the_report_can_be_another(tmp_path: Path) -> None:
    """With --out nothing is written beside the evidence."""
    out = tmp_path / "reports" / "2026"
    (tmp_path / "evidence").mkdir()
    assert period_report.main([str(tmp_path / "evidence"), *YEAR, "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == {f"{NAME}.json", f"{NAME}.html"}
    assert list((tmp_path / "evidence").iterdir()) == []


@pytest.mark.parametrize(
    "dates", [("--from", "1.1.2026", "--to", "2026-12-31"), ("--from", "2026-12-31", "--to", "2026-01-01")]
)
def test_dates_that_make_no_period_are_refused(tmp_path: Path, dates: tuple[str, ...]) -> None:
    """Before anything is read or written."""
    with pytest.raises(SystemExit) as refused:
        period_report.main([str(tmp_path), *dates])
    assert refused.value.code == 2 and list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No report is written then, and no folder is made."""
    assert period_report.main([str(tmp_path / "nowhere"), *YEAR]) == 2
    assert "nowhere" in capsys.readouterr().err and not (tmp_path / "nowhere").exists()


def test_values_are_text_on_the_page(tmp_path: Path) -> None:
    """A reason with markup has no effect."""
    put_evidence(tmp_path, "odd", evidence_with(None, dag_id="<b>x", reason_for_outcome="<script>", outcome="refused"))
    period_report.main([str(tmp_path), *YEAR])
    page = (tmp_path / f"{NAME}.html").read_text()
    assert "<script" not in page and "&lt;b&gt;x" in page


def test_two_thousand_files_take_seconds(tmp_path: Path) -> None:
    """Measured against reading and parsing the same files, so that a slow machine does not matter."""
    evidence = evidence_with(None, dag_id="planned_failover")
    evidence["cut_off"] = [{"topic": "orders", "partition": n, "offset": n} for n in range(100)]
    for n in range(2_000):
        put_evidence(tmp_path, f"p-{n}", {**evidence, "procedure_id": f"p-{n}"})
    began = time.perf_counter()
    for path in tmp_path.glob("*/evidence.json"):
        json.loads(path.read_bytes())
    parsing = time.perf_counter() - began
    began = time.perf_counter()
    assert period_report.main([str(tmp_path), *YEAR]) == 0
    assert time.perf_counter() - began < 40 * parsing
    assert len(reported(tmp_path)["moves"]) == 2_000
