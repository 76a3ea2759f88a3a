"""The web pages: running procedures, their progress, and how much longer the clients' downtime may last.

Every page asks Airflow who the reader is, and shows only procedures of DAGs whose runs this person may read. Metrics,
which no person reads here, ask for a token instead.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.sdk.exceptions import AirflowNotFoundException
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, Response

from kafka_dr.domain.evidence.live_status import ProcedureStatus
from kafka_dr.errors import SwitchbackError
from kafka_dr.pages import render_page
from kafka_dr.procedure.run import Identity
from kafka_dr.web.metrics import router as metrics
from kafka_dr.web.status_reader import StatusReader

app = FastAPI(title="Switchback", docs_url=None, redoc_url=None, openapi_url=None)
app.include_router(metrics)

PREFIX = "/switchback"
_NOTHING = "There is no procedure that you may read."
_NOT_THIS_RUN = "This run has not opened a procedure. The page shows the newest procedure of each pair of clusters."
_CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}


@app.get("/")
def each_pair(request: Request, user: GetUserDep) -> Response:
    """Return the page with one procedure per pair of clusters: the running procedure, or else the last procedure."""
    return _page(request, lambda: _all_pairs(StatusReader.now(_readable_by(user)), ""))


@app.get("/run")
def one_run(request: Request, user: GetUserDep, dag_id: str, run_id: str) -> Response:
    """Return the page of one DAG run's procedure; if the run has opened none, the page of each pair of clusters."""
    may_read = _readable_by(user)
    if not may_read(dag_id):
        raise HTTPException(
            403, "You may not read the runs of this DAG: ask an administrator of Airflow for the right."
        )
    return _page(request, lambda: _of_run(StatusReader.now(may_read), Identity(dag_id, run_id).procedure_id))


@app.get("/evidence/{procedure_id}")
def evidence_page(user: GetUserDep, procedure_id: str) -> Response:
    """Return the evidence page of a procedure; 404 if the evidence folder lacks it, or the person may not read it."""
    try:
        page = StatusReader.now(_readable_by(user)).evidence_page(procedure_id)
    except SwitchbackError as error:
        raise HTTPException(503, str(error)) from None
    if page is None:
        raise HTTPException(
            404,
            "The evidence folder on the machine of Airflow's API server has no page of this procedure: check the id,"
            " and that this machine mounts the evidence folder of Airflow's tasks. Or you may not read the runs of the"
            " procedure's DAG: ask an administrator of Airflow for the right.",
        )
    return FileResponse(
        page, media_type="text/html; charset=utf-8", headers={**_HEADERS, "Content-Security-Policy": _CONTENT_POLICY}
    )


def _readable_by(user: Any) -> Callable[[str], bool]:
    """Return a function that takes a DAG id and returns whether `user` has Airflow's right to read the DAG's runs."""

    def may_read(dag_id: str) -> bool:
        team = DagModel.get_team_name(dag_id) if conf.getboolean("core", "multi_team", fallback=False) else None
        details = DagDetails(id=dag_id, team_name=team)
        return get_auth_manager().is_authorized_dag(
            method="GET", access_entity=DagAccessEntity.RUN, details=details, user=user
        )

    return may_read


def _all_pairs(reading: StatusReader, note: str) -> tuple[StatusReader, list[ProcedureStatus], str]:
    procedures = reading.of_each_pair(reading.journal_time())
    return reading, procedures, note if procedures else _NOTHING


def _of_run(reading: StatusReader, procedure_id: str) -> tuple[StatusReader, list[ProcedureStatus], str]:
    procedure = reading.procedure(procedure_id, reading.journal_time())
    return (reading, [procedure], "") if procedure else _all_pairs(reading, _NOT_THIS_RUN)


def _page(request: Request, read: Callable[[], tuple[StatusReader, list[ProcedureStatus], str]]) -> Response:
    """Return the page with the procedures that `read` returns; if `read` raises an error, 503 and the error's text.

    Args:
        read: returns the reader of evidence, the procedures to show, and a note to show above them ("" for no note).
    """
    try:
        reading, procedures, note = read()
        shown = [_with_links(request, reading, procedure) for procedure in procedures]
        return _answer(200, procedures=shown, note=note, problem="")
    except SwitchbackError as error:
        return _answer(503, procedures=[], note="", problem=str(error))
    except AirflowNotFoundException as error:
        return _answer(503, procedures=[], note="", problem=f"{error}; create this connection in Airflow.")


def _with_links(request: Request, reading: StatusReader, procedure: ProcedureStatus) -> dict[str, Any]:
    ours = request.scope.get("root_path", "").rstrip("/")
    run = f"{ours.removesuffix(PREFIX)}/dags/{quote(procedure.dag_id, safe='')}/runs/{quote(procedure.run_id, safe='')}"
    answer = f"{run}/tasks/{procedure.question.step}/required_actions" if procedure.question else ""
    evidence_page = f"{ours}/evidence/{quote(procedure.id, safe='')}" if reading.has_evidence(procedure.id) else ""
    return {"procedure": procedure, "run": run, "answer": answer, "evidence": evidence_page}


def _answer(status: int, **values: Any) -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    policy = f"{_CONTENT_POLICY}; script-src 'nonce-{nonce}'; connect-src 'self'"
    page = render_page("live.html.j2", nonce=nonce, now=datetime.now(UTC), **values)
    return HTMLResponse(page, status, headers={**_HEADERS, "Content-Security-Policy": policy})
