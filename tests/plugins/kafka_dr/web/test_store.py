"""Pages of a machine that ran none of the tasks: with a store they show what tasks on other machines wrote."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr import connections
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import Step

from tests.file_modes import PRIVATE, modes_in
from tests.plugins.kafka_dr.web.conftest import Site

ID = "planned_failover-r1"


@pytest.fixture
def elsewhere(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], Path]:
    """Closes a run whose files go to a store, then takes this machine's evidence folder away; returns that folder."""
    monkeypatch.setattr(connections, "_KEPT_FILES", {})
    bench = site.bench
    topology = json.loads(bench.topology.read_text()) | {"store": {"uri": f"file://{tmp_path}/store"}}
    bench.topology.write_text(json.dumps(topology))

    def run() -> Path:
        bench.planned(groups=("billing",))
        ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(bench.context())
        with pytest.raises(AirflowFailException, match="refused|returned"):
            CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(bench.context())
        folder = Path(topology["evidence"])
        shutil.rmtree(folder)
        return folder

    return run


def test_the_evidence_page_comes_from_the_store(elsewhere: Callable[[], Path], site: Site, tmp_path: Path) -> None:
    """And stays here, private, for the time when the store is away: then the page says so."""
    folder = elsewhere()
    assert modes_in(tmp_path / "store") == PRIVATE
    page = site.get(f"/evidence/{ID}")
    assert page.status_code == 200 and "the copy of this machine" not in page.text
    assert modes_in(folder) == PRIVATE
    connections._KEPT_FILES.clear()
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "store").write_text("no folder")
    old = site.get(f"/evidence/{ID}")
    assert old.status_code == 200 and "is the copy of this machine, of 20" in old.text
    assert "reading in the store failed" in old.text


def test_who_may_not_read_the_runs_gets_no_page_of_the_store(elsewhere: Callable[[], Path], site: Site) -> None:
    """As with a page that is on this machine."""
    elsewhere()
    site.readable.clear()
    assert site.get(f"/evidence/{ID}").status_code == 404


def test_readiness_comes_from_the_store(elsewhere: Callable[[], Path], site: Site, tmp_path: Path) -> None:
    """The first page shows the check that another machine made."""
    site.checked()
    document = site.bench.folder / "evidence/readiness/primary-to-standby.json"
    there = tmp_path / "store/readiness"
    there.mkdir(parents=True)
    shutil.move(document, there / document.name)
    assert "No check of this flow has ended yet" not in site.get("/").text.split("standby")[1]
    assert document.exists()
