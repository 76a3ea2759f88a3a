"""What a run stores is private under any umask, and a run refuses where others may reach it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions import spark_jobs
from kafka_dr.actions.evidence import file_evidence
from kafka_dr.actions.spark_jobs import run_spark_job, write_frame
from kafka_dr.commands.record_positions import open_recorder
from kafka_dr.commands.without_airflow.own_database import own_database_environment
from kafka_dr.config.settings import load_topology
from kafka_dr.errors import NotReady
from kafka_dr.hooks.archive import Archive, local_folder
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.steps.planned.check_readiness import CheckReadiness
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import Entry, Step

from tests.file_modes import PRIVATE, mode_of, modes_in, umask

MASKS = pytest.mark.parametrize("mask", [0, 0o022])
FRAME = pd.DataFrame({"topic": ["orders"], "partition": [0]})


@MASKS
def test_what_a_run_writes_is_private(mask: int, bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Artifacts, the input of a Spark job, and evidence, in the evidence folder and in the run's own."""
    with umask(mask):
        procedure = bench.opened()
        monkeypatch.setattr(spark_jobs, "submit_job", lambda *_: None)
        procedure.artifacts.save("cut_off", FRAME)
        run_spark_job(procedure, {}, "translate_offsets", lambda folder: write_frame(folder, "bounds", FRAME) or {}, "")
        file_evidence(procedure, procedure.lease.epoch)
    assert modes_in(Path(procedure.topology.evidence)) == PRIVATE
    names = {path.name for path in Path(procedure.topology.evidence).rglob("*")}
    assert {"evidence.json", "evidence.html", "bounds.parquet", "job.json"} <= names


@MASKS
def test_the_archive_is_private(mask: int, tmp_path: Path) -> None:
    """New files, merged files, and the folder itself."""
    archive, at = Archive(f"file://{tmp_path}/archive", "flow"), datetime(2026, 1, 1, tzinfo=UTC)
    with umask(mask):
        for number in (1, 2):
            archive.write("samples", pa.table({"n": [number]}), at)
        assert modes_in(tmp_path / "archive") == PRIVATE
        assert archive.merge(datetime(2026, 1, 2, tzinfo=UTC)) == 2
    assert modes_in(tmp_path / "archive") == PRIVATE


@MASKS
def test_the_journal_is_private(mask: int, tmp_path: Path) -> None:
    """The database, its write-ahead log and the log's index, which are there while somebody reads."""
    with umask(mask):
        journal = Journal(f"sqlite:///{tmp_path}/journal.db")
        with closing(journal._database.engine.raw_connection()) as reader:
            reader.cursor().execute("SELECT * FROM entries").fetchall()
            journal.append("p", "s", "note", 0, {})
            found = {path.name: mode_of(path) for path in journal.files[1:] if path.exists()}
    assert found == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}


def give(path: Path, mode: int) -> None:
    """Give a file or folder this mode; create the folder if it is missing."""
    if not path.exists():
        path.mkdir()
    path.chmod(mode)


@pytest.mark.parametrize("name", ["evidence", "archive", "", "journal.db"])
@pytest.mark.parametrize("bit", [0o040, 0o020, 0o010, 0o004, 0o002, 0o001])
def test_a_run_is_not_opened_where_others_may_reach(
    name: str, bit: int, make_bench: Callable[..., Any], quick_path: Path
) -> None:
    """Evidence, archive, and folder and file of the journal; the same run is opened once the mode is mended."""
    bench = make_bench(recorder={"archive": f"file://{quick_path}/archive"})
    journal, path = bench.journal, bench.folder / name
    good = 0o600 if path.is_file() else 0o700
    give(path, good | bit)
    with pytest.raises(AirflowFailException) as refused:
        OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context())
    assert f"{path} has mode {good | bit:o}" in str(refused.value)
    assert f"chmod {good:o} {path}" in str(refused.value)
    assert journal.lease("primary+standby") is None
    assert bench.kinds(Step.OPEN_PROCEDURE) == [Entry.REFUSAL]
    path.chmod(good)
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context())
    assert journal.lease("primary+standby").holder == "planned_failover-r1"


def test_readiness_looks_again(bench: Any) -> None:
    """Before the canary: nothing is written to a cluster."""
    procedure = bench.opened()
    give(Path(procedure.topology.evidence), 0o750)
    with pytest.raises(NotReady, match="Other users may read"):
        CheckReadiness(task_id=Step.CHECK_READINESS.value).act(procedure, {})


def test_what_gives_the_source_back_is_not_refused(bench: Any) -> None:
    """A mode that somebody changes while clients stand still must not keep them there: files stay private."""
    procedure = bench.stopped()
    for folder in (bench.folder, Path(procedure.topology.evidence)):
        give(folder, 0o755)
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(bench.context())
    assert not [entry for entry in bench.clusters["primary"].acls if entry.permission == "deny"]
    procedure.artifacts.save("cut_off", FRAME)
    assert modes_in(procedure.artifacts.folder) == PRIVATE


def test_the_recorder_does_not_begin(make_bench: Callable[..., Any], quick_path: Path) -> None:
    """It names the archive's folder before it has made a client."""
    bench = make_bench(recorder={"archive": f"file://{quick_path}/archive"})
    give(quick_path / "archive", 0o755)
    topology = load_topology(str(bench.topology))
    with pytest.raises(NotReady, match="archive has mode 755"):
        open_recorder(topology, topology.flows[0], {}, None)


@pytest.mark.parametrize(
    ("uri", "folder"),
    [("file:///var/archive/", Path("/var/archive")), ("s3://bucket/a", None), ("memory://a", None)],
)
def test_only_an_archive_on_a_file_system_has_a_folder(uri: str, folder: Path | None) -> None:
    """An object store has rights of its own."""
    assert local_folder(uri) == folder


def test_a_command_refuses_a_home_that_others_may_read(tmp_path: Path) -> None:
    """Its database holds who approved what."""
    give(tmp_path / "home", 0o755)
    with pytest.raises(NotReady, match="home has mode 755"):
        own_database_environment(tmp_path / "home")
    with umask(0):
        own_database_environment(tmp_path / "new")
    assert mode_of(tmp_path / "new") == 0o700
