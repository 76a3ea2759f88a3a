"""What each role sees of Switchback and may do, by real logins: simple auth manager and FAB, on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import requests

from tests.support.page.api_server import FAB, SIMPLE, RolesServer
from tests.support.page.heavy_page import HeavySite

RUN = "planned_failover-running"
PAGES = {
    "page of all flows": "/switchback/",
    "page of a procedure": "/switchback/run?dag_id=planned_failover&run_id=running",
    "evidence": "/switchback/evidence/planned_failover-past-0",
    "form": "/api/v2/dags/planned_failover/details",
}
RUNS = "/api/v2/dags/planned_failover/dagRuns"
GATE = f"{RUNS}/none/taskInstances/approve_failover/-1/hitlDetails"
MARK = f"{RUNS}/none/taskInstances/approve_failover"
ACTS = {
    "trigger": ("POST", RUNS, {"logical_date": None, "conf": {"source": "primary"}}),
    "answer a gate": ("PATCH", GATE, {"chosen_options": ["Approve"], "params_input": {}}),
    "mark a task": ("PATCH", MARK, {"new_state": "success"}),
    "pause": ("PATCH", "/api/v2/dags/planned_failover", {"is_paused": False}),
    "connections": ("GET", "/api/v2/connections", None),
}
SEES, NOTHING = dict.fromkeys(PAGES, True), dict.fromkeys(PAGES, False)
MAY_NOT = dict.fromkeys(ACTS, False)
EVERY_RUN = MAY_NOT | dict.fromkeys(("trigger", "answer a gate", "mark a task", "pause"), True)
#: Role -> what it sees, and what it may do; the table of runbooks/approvals_with_fab.md is this one.
EXPECTED = {
    SIMPLE: {
        "viewer": (SEES, MAY_NOT),
        "user": (SEES, EVERY_RUN),
        "op": (SEES, dict.fromkeys(ACTS, True)),
        "admin": (SEES, dict.fromkeys(ACTS, True)),
    },
    FAB: {
        "Public": (NOTHING, MAY_NOT),
        "Viewer": (SEES, MAY_NOT),
        "User": (SEES, EVERY_RUN),
        "Op": (SEES, dict.fromkeys(ACTS, True)),
        "Admin": (SEES, dict.fromkeys(ACTS, True)),
        "switchback-reader": (SEES, MAY_NOT),
        "switchback-operator": (SEES, MAY_NOT | dict.fromkeys(("trigger", "mark a task", "pause"), True)),
        "switchback-approver": (SEES, MAY_NOT | dict.fromkeys(("answer a gate", "pause"), True)),
    },
}


@pytest.fixture(scope="module", params=[SIMPLE, FAB])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolesServer]:
    """An API server whose journal has a procedure that runs, and one that has ended, with its evidence."""
    folder = tmp_path_factory.mktemp(request.param)
    site = HeavySite(folder)
    site.fill(past=1, groups=10)
    document = json.loads(site.bench.topology.read_text())
    site.bench.topology.write_text(json.dumps({**document, "metrics": {"connection": "scrape"}}))
    evidence = folder / "evidence" / "planned_failover-past-0"
    (evidence / "evidence.json").write_text(json.dumps({"dag_id": "planned_failover"}))
    home = folder / "airflow"
    home.mkdir()
    found = RolesServer(home, request.param, site.bench.topology, site.bench.url)
    found.prepare()
    with found.running():
        yield found


def what_is_seen(server: RolesServer, session: requests.Session) -> dict[str, bool]:
    """Return page -> whether it shows something of the procedures."""
    answers = {name: session.get(f"{server.url}{path}", timeout=120) for name, path in PAGES.items()}
    assert {answer.status_code for answer in answers.values()} <= {200, 403, 404}, answers
    words = {"page of all flows": RUN, "page of a procedure": "fence_producers", "form": "params"}
    return {name: answer.ok and words.get(name, "") in answer.text for name, answer in answers.items()}


def test_each_role_sees_and_may_do_what_its_table_says(server: RolesServer) -> None:
    """Everybody logs in with a password; what is refused is refused with 403."""
    seen = {}
    for role in EXPECTED[server.kind]:
        session = server.login(role)
        codes = dict(zip(ACTS, server.codes(session, list(ACTS.values())), strict=True))
        assert not set(codes.values()) & {401, 500, 503}, (role, codes)
        seen[role] = (what_is_seen(server, session), {act: code != 403 for act, code in codes.items()})
    assert seen == EXPECTED[server.kind]


def test_nobody_without_a_login_sees_anything(server: RolesServer) -> None:
    """Neither pages nor API; a token that is none is refused, too."""
    for headers in ({}, {"Authorization": "Bearer none"}):
        for path in PAGES.values():
            answer = requests.get(f"{server.url}{path}", headers=headers, timeout=120, allow_redirects=False)
            assert answer.status_code in (401, 403) and RUN not in answer.text, (path, answer.status_code)


def test_metrics_ask_for_their_token_whoever_has_logged_in(server: RolesServer) -> None:
    """No role opens the address, and the token needs no role."""
    path = f"{server.url}/switchback/metrics"
    for role in EXPECTED[server.kind]:
        assert server.login(role).get(path, timeout=120).status_code == 401, role
    answer = requests.get(path, headers={"Authorization": f"Bearer {server.token}"}, timeout=120)
    assert answer.status_code == 200 and "switchback_up" in answer.text
