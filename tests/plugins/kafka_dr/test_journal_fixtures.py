"""Journals of an earlier version are read by this one, which makes the same evidence of them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.api_fastapi.core_api.security import get_user
from airflow.sdk.exceptions import AirflowFailException
from fastapi.testclient import TestClient
from kafka_dr.actions.clients import begun_opening
from kafka_dr.actions.fencing.acl_fence import added_entries
from kafka_dr.actions.loss.takeover import ProvenFacts, read_proven_facts
from kafka_dr.actions.restore import committed_by, snapshot_of, undone_procedure
from kafka_dr.config.settings import Request, load_topology
from kafka_dr.connections import Connections
from kafka_dr.domain.evidence.live_status import live_status
from kafka_dr.domain.loss.loss_plan import UNSIGNED_SAMPLES
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.run import Identity, Run
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.vocabulary import Entry, Outcome, Step
from kafka_dr.web import app as web

from tests.support.facts import figures_of

FIXTURES = Path(__file__).parents[2] / "fixtures" / "journals"
NAMES = sorted(path.parent.name for path in FIXTURES.glob("*/journal.jsonl"))
#: Fields of the evidence that may differ, and why.
EXEMPT = {
    "digest": "it covers the whole document, so that a later version may compute it otherwise",
    "warnings": "the earlier version had none; test_what_an_earlier_version_did_not_say_is_named has this version's",
}
#: Fields that later versions added, with what they say of a journal that cannot fill them.
ADDED = {"drill": None, "approved_through": None, "clusters": {}, "topology_digest": None, "objectives": None}
ADDED |= {"clock": None, "notices": [], "exports": None}
PAIR = "primary+standby"

Row = dict[str, Any]


class Fixture:
    """A fixture, and the journal that it was put into."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder
        self.evidence = json.loads((FIXTURES / name / "evidence.json").read_text(encoding="utf-8"))
        self.rows = [json.loads(line) for line in (FIXTURES / name / "journal.jsonl").read_text().splitlines()]
        (folder / "evidence").mkdir()
        if (FIXTURES / name / "kept").exists():
            shutil.copytree(FIXTURES / name / "kept", folder / "evidence", dirs_exist_ok=True)
        (folder / "evidence").chmod(0o700)
        self.url = f"sqlite:///{folder}/journal.db"
        (folder / "topology.yaml").write_text(yaml.safe_dump(topology()))

    @property
    def id(self) -> str:
        """The procedure that the evidence is of."""
        return self.evidence["procedure_id"]

    def entries(self, procedure_id: str, step: Step, kind: Entry) -> list[Row]:
        """A procedure's entries of one kind."""
        wanted = (procedure_id, step, kind)
        return [row for row in self.rows if (row.get("procedure_id"), row.get("step"), row.get("kind")) == wanted]

    def run_of(self, procedure_id: str) -> Any:
        """The DAG run as Airflow hands it to a task."""
        opened = self.entries(procedure_id, Step.OPEN_PROCEDURE, Entry.OPENED)
        told = json.loads(opened[-1]["payload"]) if opened else {}
        dag_id, _, run_id = procedure_id.partition("-")
        return SimpleNamespace(
            dag_id=dag_id,
            run_id=told.get("run_id", run_id),
            start_date=None,
            queued_at=None,
            run_after=datetime.now(UTC),
            clear_number=0,
        )

    def context(self, procedure_id: str, **params: Any) -> dict[str, Any]:
        """What Airflow hands to a task of a run."""
        asked = {name: self.evidence[name] for name in ("source", "target", "reason")}
        return {"dag_run": self.run_of(procedure_id), "params": asked | params, "ti": SimpleNamespace(try_number=1)}

    def load(self, rows: list[Row]) -> Journal:
        """Put rows into the journal's own tables."""
        journal = Journal(self.url)
        with closing(sqlite3.connect(self.folder / "journal.db")) as database, database:
            for row in rows:
                columns = {name: value for name, value in row.items() if name != "table"}
                marks = ", ".join("?" * len(columns))
                statement = f"INSERT INTO {row['table']} ({', '.join(columns)}) VALUES ({marks})"
                database.execute(statement, tuple(columns.values()))
        return journal

    def before(self, entry: Row) -> list[Row]:
        """The rows as they stood just before an entry was written."""
        rows = [row for row in self.rows if row.get("sequence", 0) < entry["sequence"]]
        return [as_of(row, entry["at"]) for row in rows if row.get("taken_at", "") < entry["at"]]

    def procedure(self, procedure_id: str, **choices: Any) -> Run:
        """A procedure of this version, with the journal and the files of the fixture."""
        run = self.run_of(procedure_id)
        asked = {name: self.evidence[name] for name in ("source", "target", "reason")}
        request = Request(**asked, choices=choices)
        loaded = load_topology(str(self.folder / "topology.yaml"))
        return Run.connected(Identity(run.dag_id, run.run_id), request, loaded, Connections())


def as_of(row: Row, at: str) -> Row:
    """A row of the journal as it stood at a time: a lease that was released later is held."""
    released = row.get("released_at")
    return row | {"released_at": None, "outcome": None} if released and released >= at else row


def topology() -> dict[str, Any]:
    """The topology of the lab that the journals were written on, without what no test here asks for."""
    flows = [
        {
            "source": source,
            "target": target,
            "connect": f"connect_{target}",
            "connectors": {kind: f"{source}-to-{target}-{kind}" for kind in ("source", "checkpoint")},
        }
        for source, target in (("primary", "standby"), ("standby", "primary"))
    ]
    return {
        "clusters": {alias: {"connection": alias} for alias in ("primary", "standby")},
        "naming": {"policy": "identity"},
        "flows": flows,
        "routing": {"kind": "file", "path": "routing.json"},
        **{system: {"connection": system} for system in ("journal", "airflow_api", "spark")},
        "evidence": "evidence",
        "cool_down_seconds": 0,
    }


@pytest.fixture
def fixture(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fixture:
    """The fixture that a test's parameter names, and the environment of a task on its site."""
    made = Fixture(request.param, tmp_path)
    monkeypatch.setenv("KAFKA_DR_TOPOLOGY", str(tmp_path / "topology.yaml"))
    for alias in ("primary", "standby"):
        # Nothing listens there: a run begins without the ids of clusters that do not answer.
        servers = {"bootstrap.servers": "127.0.0.1:1"}
        monkeypatch.setenv(f"AIRFLOW_CONN_{alias.upper()}", json.dumps({"conn_type": "kafka", "extra": servers}))
    for name in ("connect_primary", "connect_standby", "spark"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "http", "host": name}))
    monkeypatch.setenv("AIRFLOW_CONN_JOURNAL", json.dumps({"conn_type": "generic", "extra": {"url": made.url}}))
    return made


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """The web page as somebody sees it who may read everything."""
    everything = SimpleNamespace(is_authorized_dag=lambda **_: True)
    monkeypatch.setattr(web, "get_auth_manager", lambda: everything)
    web.app.dependency_overrides[get_user] = lambda: SimpleNamespace(name="viewer")
    yield TestClient(web.app, root_path="/switchback")
    web.app.dependency_overrides.clear()


def each(*beginnings: str) -> pytest.MarkDecorator:
    """Run a test with each fixture whose name has one of these beginnings."""
    names = [name for name in NAMES if name.startswith(beginnings)]
    return pytest.mark.parametrize("fixture", names, indirect=True, ids=names)


def closed(fixture: Fixture) -> Row:
    """The entry that the procedure was closed with last."""
    return fixture.entries(fixture.id, Step.CLOSE_PROCEDURE, Entry.CLOSED)[-1]


def close_again(fixture: Fixture, rows: list[Row] | None = None) -> dict[str, Any]:
    """Close the procedure, or the one that continued it, once more; return this version's evidence."""
    closing_run = fixture.evidence["continued_by"] or fixture.id
    fixture.load(fixture.before(closed(fixture)) if rows is None else rows)
    with suppress(AirflowFailException):
        CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(fixture.context(closing_run))
    folder = fixture.folder / "evidence" / fixture.id
    assert "<html" in (folder / "evidence.html").read_text(encoding="utf-8")
    return json.loads((folder / "evidence.json").read_text(encoding="utf-8"))


def comparable(evidence: dict[str, Any]) -> dict[str, Any]:
    """The evidence without its exempt fields."""
    return {name: value for name, value in evidence.items() if name not in EXEMPT}


def test_every_procedure_has_its_outcomes() -> None:
    """Every outcome that a procedure can have has a journal."""
    moving = {f"{dag}-{end}" for dag in ("planned_failover", "unplanned_failover", "failback") for end in Outcome}
    restoring = {f"restore_group_offsets-{end}" for end in Outcome if end is not Outcome.RETURNED}
    assert moving | restoring | {"abort_procedure-aborted", "abort_procedure-refused"} <= set(NAMES)


@each("")
def test_the_evidence_is_the_same(fixture: Fixture) -> None:
    """Field by field, but for the exempt ones; the outcome is the one that the fixture is named for.

    Later versions compute from the same entries how long clients stood still and what was achieved.
    """
    made = close_again(fixture)
    achieved, downtime = made.pop("achieved"), made["seconds"].pop("downtime")
    assert comparable(made) == comparable(ADDED | fixture.evidence)
    if made["dag_id"] in ("restore_group_offsets", "abort_procedure"):
        assert (achieved, downtime) == (None, None)
    elif made["outcome"] == "completed":
        assert achieved["downtime_seconds"] == downtime > 0 and achieved["lost_records"]["certain"] is not None
    else:
        assert achieved["downtime_seconds"] is None and achieved["lost_records"] == {"certain": None, "possible": None}


@each("")
def test_what_an_earlier_version_did_not_say_is_named(fixture: Fixture) -> None:
    """Its samples were not signed: the evidence begins with that wherever loss was assessed by samples."""
    made = close_again(fixture)
    assessed = fixture.entries(fixture.id, Step.ASSESS_DATA_LOSS, Entry.OUTCOME)
    sampled = any(json.loads(entry["payload"])["last_sample_at"] is not None for entry in assessed)
    assert next(iter(made.items())) == ("warnings", [UNSIGNED_SAMPLES] if sampled else [])
    page = (fixture.folder / "evidence" / fixture.id / "evidence.html").read_text(encoding="utf-8")
    assert (UNSIGNED_SAMPLES in page) == sampled


@each("planned_failover-completed")
def test_an_altered_entry_is_seen(fixture: Fixture) -> None:
    """One figure of one outcome is altered: nothing is closed under this journal, and the chain breaks there."""
    (altered,) = fixture.entries(fixture.id, Step.COMMIT_GROUPS, Entry.OUTCOME)
    other = altered | {"payload": json.dumps(json.loads(altered["payload"]) | {"committed": -1})}
    rows = [other if row is altered else row for row in fixture.before(closed(fixture))]
    fixture.load(rows)
    with pytest.raises(AirflowFailException, match=f"The journal's entry {altered['sequence']} was changed"):
        CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(fixture.context(fixture.id))
    assert not (fixture.folder / "evidence" / fixture.id / "evidence.json").exists()
    assert Journal(fixture.url).verify() == altered["sequence"]


@each("")
def test_the_journal_is_read(fixture: Fixture, client: TestClient) -> None:
    """The chain of hashes holds, and the live page shows the procedure with its outcome."""
    assert fixture.load(fixture.rows).verify() is None
    run = fixture.run_of(fixture.id)
    page = client.get("/run", params={"dag_id": run.dag_id, "run_id": run.run_id})
    assert page.status_code == client.get("/").status_code == 200
    if fixture.entries(fixture.id, Step.OPEN_PROCEDURE, Entry.OPENED):
        assert fixture.id in page.text and fixture.evidence["outcome"] in page.text


@each("")
def test_the_live_status_follows_every_entry(fixture: Fixture) -> None:
    """A journal that ends at any of the procedure's entries has a status, from the one that opened it on."""
    entries = fixture.load(fixture.rows).entries(fixture.id)
    known = [live_status(fixture.id, entries[:number], entries[number - 1].at) for number in range(1, len(entries) + 1)]
    opened = bool(fixture.entries(fixture.id, Step.OPEN_PROCEDURE, Entry.OPENED))
    assert {status is not None for status in known} == {opened}
    assert (known[-1].outcome if known[-1] else fixture.evidence["outcome"]) == fixture.evidence["outcome"]


@each("planned_failover", "abort_procedure")
def test_what_a_planned_failover_had_proven_is_read(fixture: Fixture) -> None:
    """A procedure that continues this one takes over what entries and files prove, as many rows as they say."""
    fixture.load(fixture.rows)
    proven = read_proven_facts(fixture.procedure("unplanned_failover-later", continue_procedure=fixture.id))
    figures = {step["id"]: step["figures"] for step in fixture.evidence["steps"]}
    assert proven.procedure_id == fixture.id
    assert bool(proven.topics) == (Step.FORECAST in figures)
    if not back_was_begun(fixture):
        assert_all_proven(proven, figures)


def back_was_begun(fixture: Fixture) -> bool:
    """Whether the source was given back, so that the fence proves nothing."""
    return bool(fixture.entries(fixture.id, Step.RETURN_TO_SOURCE, Entry.INTENT))


def assert_all_proven(proven: ProvenFacts, figures: dict[str, Any]) -> None:
    """Cut-off, positions and boundary have as many rows as their steps said."""
    assert proven.doubts == ()
    assert len(proven.cut_off) == figures[Step.FENCE_PRODUCERS]["cut_off"]["rows"]
    assert proven.positions is not None
    assert len(proven.positions) == figures[Step.DRAIN_CONSUMERS]["positions"]["rows"]
    assert set(proven.boundary) == set(proven.cut_off)


@each("planned_failover", "unplanned_failover", "failback", "abort_procedure")
def test_what_a_return_puts_back_is_read(fixture: Fixture) -> None:
    """As many entries of ACLs as the steps said that they had added on the source, lifted and removed on the target."""
    fixture.load(fixture.rows)
    procedure = fixture.procedure(fixture.id)
    figures = {step["id"]: step["figures"] for step in fixture.evidence["steps"]}
    added, removed = added_entries(procedure), begun_opening(procedure).removes
    lifted = figures.get(Step.RETURN_TO_SOURCE, {}).get("acl_entries_lifted", len(added))
    opened = figures.get(Step.OPEN_TARGET, {}).get("acl_entries_removed", len(removed))
    assert (len(added), len(removed)) == (lifted, opened)
    assert added or Step.FENCE_PRODUCERS not in figures


@each("planned_failover-failed-continued")
def test_a_planned_failover_is_continued(fixture: Fixture) -> None:
    """A run of this version takes the lease of the earlier version's run, and says what it continues."""
    first, *_ = fixture.entries(fixture.id, Step.OPEN_PROCEDURE, Entry.NOTE)
    journal = fixture.load(fixture.before(first))
    lease = journal.lease(PAIR)
    assert lease is not None and lease.holder == fixture.id
    later = "unplanned_failover-later"
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(fixture.context(later, continue_procedure=fixture.id))
    taken, opened = journal.lease(PAIR), journal.last(later, Step.OPEN_PROCEDURE, Entry.OPENED)
    assert taken is not None and (taken.holder, taken.released_at) == (later, None)
    assert opened is not None and opened.payload["continues"] == {"procedure_id": fixture.id, "fenced": True}


@each("restore_group_offsets")
def test_what_was_committed_is_read(fixture: Fixture) -> None:
    """Another restore knows the commit, the positions that stood there before, and those that were committed."""
    fixture.load(fixture.rows)
    undone = undone_procedure(fixture.procedure("restore_group_offsets-later"))
    assert undone.id == fixture.evidence["plan"]["undone"]
    assert len(committed_by(undone)) == figures_of(undone, Step.COMMIT_GROUPS)["ledger"]["rows"] > 0
    assert set(snapshot_of(undone).columns) == {"group", "topic", "partition", "position"}
