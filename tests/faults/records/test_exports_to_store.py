"""Executors that share no folder with Airflow's workers export records to a store that is far away and fails calls."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.parquet as pq
import pytest

from lab.checker.stored.stated_place import OPTIONS
from lab.environment import airflow_settings, topology_file
from lab.environment.state import Lab
from lab.rehearsal.round_trip import Leaving, Returning
from lab.rehearsal.unplanned import Accident
from tests.file_modes import PRIVATE, modes_in
from tests.support.rehearsals import trips_without_findings
from tests.support.stores.apart_executors import can_mount, python_without
from tests.support.stores.disturbing_proxy import Disturbance
from tests.support.stores.object_store import BUCKET, SECRET, disturbed, object_store

RATE = 500


def with_store(monkeypatch: pytest.MonkeyPatch, uri: str, options: dict[str, Any], starters: Path) -> None:
    """Have labs name a store, and start executors that see nothing of the evidence folder."""
    topology, connections = topology_file.topology_settings, airflow_settings.airflow_connections
    environment = airflow_settings.own_environment
    store = {"uri": uri, "connection": "switchback_store"}
    monkeypatch.setattr(topology_file, "topology_settings", lambda lab: topology(lab) | {"store": store})
    added = {"switchback_store": {"conn_type": "generic", "extra": options}}
    monkeypatch.setattr(airflow_settings, "airflow_connections", lambda lab: connections(lab) | added)
    monkeypatch.setattr(
        airflow_settings, "own_environment", lambda lab: environment(lab) | python_without(lab.evidence, starters)
    )


def test_clients_leave_a_killed_source_and_return_with_executors_that_share_no_folder(
    fresh_lab: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics are deleted and stranded records replayed from the store alone; judged by ids, also the export itself."""
    assert can_mount(), "this machine lets no user mount in a namespace of their own"
    uri, disturbance = f"s3://{BUCKET}/{uuid.uuid4().hex}", Disturbance(failing=0.05, seconds=0.2)
    with object_store() as s3, disturbed(s3, disturbance) as options:
        with_store(monkeypatch, uri, options, tmp_path)
        monkeypatch.setenv(OPTIONS, json.dumps(s3))
        state = fresh_lab("identity", spark_workers=2)
        leaving = Leaving(Accident(after=1.0), more=10, stranded=20, params={"confirm_seconds": 6})
        returning = Returning("recreate", {".*": "replay"}, more=10)
        figures = trips_without_findings(state, tmp_path, [(leaving, returning)], RATE, scale=0.02, groups=8)
        assert figures["stranded_listed"] > 20 and figures["replays_due"] > 0 and figures["missing"] == 0
        assert disturbance.failed > 0
        lab = Lab(state)
        (path,) = lab.evidence.glob("failback-*/evidence.json")
        evidence = json.loads(path.read_text(encoding="utf-8"))
        assert evidence["stranded"].startswith(f"{uri}/{evidence['procedure_id']}/find_stranded_records-")
        assert evidence["exports"] == {"values": "keep", "keys": "keep"}
        assert_every_listed_part_is_stored(path.parent, evidence, s3)
    assert modes_in(path.parent) == PRIVATE
    assert_executors_ran_and_show_no_login(lab)


def assert_every_listed_part_is_stored(folder: Path, evidence: dict[str, Any], options: dict[str, Any]) -> None:
    """Each part that counts is in the store with its digest and its number of records, and fetched for the replay."""
    (found,) = [step["figures"] for step in evidence["steps"] if step["id"] == "find_stranded_records"]
    rows = pq.read_table(folder / found["export"]["files"]["file"]).to_pylist()
    files, root = fsspec.core.url_to_fs(evidence["stranded"], **options)
    for row in rows:
        content = files.cat_file(f"{root}/stranded/{row['file']}")
        assert sha256(content).hexdigest() == row["sha256"]
        fetched = folder / found["export"]["folder"] / "stranded" / row["file"]
        assert fetched.read_bytes() == content and pq.read_metadata(fetched).num_rows == row["records"] > 0
    assert {path.rpartition("/")[2] for path in files.find(f"{root}/stranded")} == {row["file"] for row in rows}


def assert_executors_ran_and_show_no_login(lab: Lab) -> None:
    """Tasks ran on both workers; no log of Spark, of Airflow or of a step has the store's secret."""
    outputs = {path: path.read_text(errors="replace") for path in (lab.home / "spark").glob("*/app-*/*/std*")}
    assert {path.relative_to(lab.home / "spark").parts[0] for path in outputs} == {"spark-worker-0", "spark-worker-1"}
    assert any("Finished task" in text for text in outputs.values())
    logs = [path for path in lab.home.rglob("*.log") if path.is_file()]
    assert logs and not [path for path in logs if SECRET in path.read_text(errors="replace")]
    assert not [path for path, text in outputs.items() if SECRET in text]
