"""The web page: real app, real journal; only Airflow's idea of who may read what is given by the test."""

from __future__ import annotations

import json
import re

import pytest
from airflow.api_fastapi.core_api.security import get_user
from kafka_dr.vocabulary import Entry, Step
from kafka_dr.web import app as web

from tests.plugins.kafka_dr.web.conftest import ID, ODD, Site


@pytest.mark.parametrize("path", ["/", "/run?dag_id=planned_failover&run_id=r+1", f"/evidence/{ID}"])
def test_who_has_not_logged_in_sees_nothing(site: Site, path: str) -> None:
    """401 by Airflow's own check, on every path."""
    site.opened()
    web.app.dependency_overrides.clear()
    answer = site.get(path)
    assert answer.status_code == 401 and "primary" not in answer.text


def test_every_route_asks_who_it_is() -> None:
    """A route added later without the check is found here."""
    routes = [route for route in web.app.routes if hasattr(route, "dependant")]
    assert len(routes) == 3 and all(any(d.call is get_user for d in route.dependant.dependencies) for route in routes)


def test_clients_that_stand_still_are_counted_down(site: Site) -> None:
    """How long, of how long, and when it returns; ticking without a script by a refresh."""
    site.opened()
    site.write(103, Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": 1})
    page = site.get().text
    assert re.search(
        r'Clients fenced for <b class="count" data-seconds="10[34]\.\d+">1:4[34]</b> of 10:00; at \d\d:\d\d:\d\d UTC'
        r" the procedure returns to \w+ by itself\.",
        page,
    )
    assert '<noscript><meta http-equiv="refresh"' in page


def test_an_open_question_leads_to_its_answer(site: Site) -> None:
    """The gate's own page in Airflow, with the run's id as it must stand in an address."""
    site.opened()
    site.write(60, Step.APPROVE_FAILOVER, Entry.INTENT, **{"try": 1})
    page = site.get().text
    assert "waits for a second person" in page and "runbooks/planned_failover.md#approve_failover" in page
    assert 'href="/dags/planned_failover/runs/r%2B1/tasks/approve_failover/required_actions"' in page


def test_nobody_sees_what_they_may_not_read(site: Site) -> None:
    """Neither on the first page, nor by the run, nor its evidence."""
    site.opened()
    evidence_of(site)
    site.readable = {"abort_procedure"}
    page = site.get().text
    assert "you may not read the procedure that says so" in page and "maintenance" not in page and ID not in page
    assert site.get("/run?dag_id=planned_failover&run_id=r%2B1").status_code == 403
    told = site.get("/run?dag_id=abort_procedure&run_id=x").text
    assert "maintenance" not in told and ID not in told
    assert site.get(f"/evidence/{ID}").status_code == 404


def test_a_run_shows_its_own_procedure(site: Site) -> None:
    """Found by DAG and run id; another run sees what is in hand, and that it is not its own."""
    site.opened()
    own, other = (
        site.get("/run?dag_id=planned_failover&run_id=r%2B1").text,
        site.get("/run?dag_id=planned_failover&run_id=other").text,
    )
    assert ID in own and "has not opened a procedure" not in own
    assert ID in other and "has not opened a procedure" in other


def test_everything_is_escaped(site: Site) -> None:
    """A reason, a failure and a note called <script> are text."""
    site.opened(reason=ODD)
    site.write(10, Step.FORECAST, Entry.INTENT)
    site.write(9, Step.FORECAST, Entry.REFUSAL, reason=ODD, seen=ODD, next_step=ODD)
    for path, times in (("/", 3), ("/run?dag_id=planned_failover&run_id=r%2B1", 5)):
        page = site.get(path).text
        assert page.count("<script") == 1 and page.count("&lt;script&gt;alert(1)&lt;/script&gt;{{ 7*7 }}") == times


def test_no_script_of_others_may_run(site: Site) -> None:
    """The page's own script runs by a nonce that is new each time; nothing is kept."""
    first, second = site.get(), site.get()
    nonces = [
        re.search(r"script-src 'nonce-([^']+)'", answer.headers["content-security-policy"])[1]
        for answer in (first, second)
    ]
    assert nonces[0] != nonces[1] and f'<script nonce="{nonces[0]}">' in first.text
    assert first.headers["cache-control"] == "no-store"
    assert not re.search(r"https?:|src=|@import|url\(", first.text)


def evidence_of(site: Site) -> None:
    """Evidence of the procedure on this machine."""
    folder = site.bench.folder / "evidence" / ID
    folder.mkdir(parents=True)
    (folder / "evidence.json").write_text(json.dumps({"dag_id": "planned_failover"}))
    (folder / "evidence.html").write_text("<p>the evidence</p>")


def test_the_evidence_is_served_without_scripts(site: Site) -> None:
    """Linked once it is there; as a page that may run nothing."""
    site.opened()
    assert "Its evidence" not in site.get().text
    evidence_of(site)
    assert f'href="/switchback/evidence/{ID}"' in site.get().text
    answer = site.get(f"/evidence/{ID}")
    assert answer.text == "<p>the evidence</p>" and "default-src 'none'" in answer.headers["content-security-policy"]
    assert "script-src" not in answer.headers["content-security-policy"]


BAD_NAMES = ".. . ... %2e%2e ..%2fjournal.db %2e%2e%2f%2e%2e%2fetc%2fpasswd a%00b nothing-here"


@pytest.mark.parametrize("name", [*BAD_NAMES.split(), "x" * 301])
def test_only_evidence_is_served(site: Site, name: str) -> None:
    """No way out of the evidence's folder."""
    evidence_of(site)
    (site.bench.folder / "evidence" / "evidence.html").write_text("outside")
    (site.bench.folder / "evidence" / "evidence.json").write_text('{"dag_id": "planned_failover"}')
    (site.bench.folder / "evidence.html").write_text("outside")
    (site.bench.folder / "evidence.json").write_text('{"dag_id": "planned_failover"}')
    answer = site.get(f"/evidence/{name}")
    assert answer.status_code in (200, 404) and "outside" not in answer.text


def test_a_journal_that_cannot_be_read_is_said(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with the reason; no password of the journal's address, and a missing connection is named."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_JOURNAL",
        json.dumps({"conn_type": "generic", "extra": {"url": "sqlite:////nowhere/at/all/journal.db"}}),
    )
    answer = site.get()
    assert answer.status_code == 503 and "cannot be shown" in answer.text and "the journal is not" in answer.text
    answer = site.get("/run?dag_id=planned_failover&run_id=x")
    assert answer.status_code == 503 and "cannot be shown" in answer.text and "the journal is not" in answer.text
    monkeypatch.setenv(
        "AIRFLOW_CONN_JOURNAL",
        json.dumps({"conn_type": "generic", "extra": {"url": "postgresql+psycopg://u:hunter2@127.0.0.1:1/x"}}),
    )
    answer = site.get()
    assert answer.status_code == 503 and "hunter2" not in answer.text
    monkeypatch.delenv("AIRFLOW_CONN_JOURNAL")
    answer = site.get()
    assert answer.status_code == 503 and "journal" in answer.text


def test_reading_writes_nothing(site: Site) -> None:
    """The journal is the same after every page."""
    site.opened()
    before = site.bench.journal.entries()
    for path in ("/", "/run?dag_id=planned_failover&run_id=r%2B1", f"/evidence/{ID}"):
        site.get(path)
    assert site.bench.journal.entries() == before
