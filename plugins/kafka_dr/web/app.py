"""The web pages: all flows with their readiness, and one procedure with its steps and the fence's countdown.

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
from airflow.utils.session import create_session
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from kafka_dr.domain.evidence.live_status import ProcedureStatus
from kafka_dr.domain.overview.setting_up import READINESS_DAG
from kafka_dr.errors import SwitchbackError
from kafka_dr.pages import render_page
from kafka_dr.procedure.run import Identity
from kafka_dr.procedures import PROCEDURES
from kafka_dr.web.metrics import router as metrics
from kafka_dr.web.overview_reader import LastProcedure, Overview, read_overview
from kafka_dr.web.status_reader import StatusReader

app = FastAPI(title="Switchback", docs_url=None, redoc_url=None, openapi_url=None)
app.include_router(metrics)

PREFIX = "/switchback"
_NOTHING = (
    "There is nothing here that you may read: ask an administrator of Airflow for the right to read the runs of"
    " Switchback's DAGs."
)
_NOT_THIS_RUN = "This run has not opened a procedure. The page shows all flows instead."
_CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}


@app.get("/")
def all_flows(request: Request, user: GetUserDep) -> Response:
    """Return the page with every flow: where clients are, whether a failover would work now, and what runs."""
    return _overview_page(request, _readable_by(user), "")


@app.get("/run")
def one_run(request: Request, user: GetUserDep, dag_id: str, run_id: str) -> Response:
    """Return the page of one DAG run's procedure; if the run has opened none, the page with every flow."""
    may_read = _readable_by(user)
    if not may_read(dag_id):
        raise HTTPException(
            403, "You may not read the runs of this DAG: ask an administrator of Airflow for the right."
        )
    try:
        reading = StatusReader.now(may_read)
        procedure = reading.procedure(Identity(dag_id, run_id).procedure_id, reading.journal_time())
    except SwitchbackError as error:
        return _answer(503, "live.html.j2", shown=None, problem=str(error))
    if procedure is None:
        return _overview_page(request, may_read, _NOT_THIS_RUN)
    return _answer(200, "live.html.j2", shown=_with_links(request, reading, procedure), problem="")


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
            " and that this machine mounts the evidence folder of Airflow's tasks, or reads their store. Or you may not"
            " read the runs of the procedure's DAG: ask an administrator of Airflow for the right.",
        )
    return HTMLResponse(page, headers={**_HEADERS, "Content-Security-Policy": _CONTENT_POLICY})


def _readable_by(user: Any) -> Callable[[str], bool]:
    """Return a function that takes a DAG id and returns whether `user` has Airflow's right to read the DAG's runs."""

    def may_read(dag_id: str) -> bool:
        team = DagModel.get_team_name(dag_id) if conf.getboolean("core", "multi_team", fallback=False) else None
        details = DagDetails(id=dag_id, team_name=team)
        return get_auth_manager().is_authorized_dag(
            method="GET", access_entity=DagAccessEntity.RUN, details=details, user=user
        )

    return may_read


def _overview_page(request: Request, may_read: Callable[[str], bool], note: str) -> Response:
    """Return the page with every flow, and `note` above; if the topology cannot be read, 503 and the reason."""
    try:
        overview = read_overview(may_read, _paused_dags(), datetime.now(UTC))
    except SwitchbackError as error:
        return _answer(503, "overview.html.j2", overview=Overview(), running=[], runs={}, note="", problem=str(error))
    statuses = overview.statuses
    running = [_with_links(request, statuses, procedure) for procedure in overview.running] if statuses else []
    runs = {flow.last.id: _links(request, statuses, flow.last) for flow in overview.flows if flow.last and statuses}
    return _answer(
        503 if overview.problem else 200,
        "overview.html.j2",
        overview=overview,
        running=running,
        runs=runs,
        note=note if overview.flows else _NOTHING,
        problem=overview.problem,
    )


def _paused_dags() -> dict[str, bool | None]:
    """Return DAG -> whether it is paused, None for one that Airflow does not know; {} if its database is away."""
    names = (READINESS_DAG, *PROCEDURES)
    query = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(names), ~DagModel.is_stale)
    try:
        with create_session() as session:
            known = {row.dag_id: bool(row.is_paused) for row in session.execute(query)}
    except SQLAlchemyError:
        return {}
    return {name: known.get(name) for name in names}


def _with_links(request: Request, reading: StatusReader, procedure: ProcedureStatus) -> dict[str, Any]:
    links = _links(request, reading, procedure)
    answer = f"{links['run']}/tasks/{procedure.question.step}/required_actions" if procedure.question else ""
    return {"procedure": procedure, "answer": answer, **links}


def _links(request: Request, reading: StatusReader, procedure: ProcedureStatus | LastProcedure) -> dict[str, str]:
    """Return a procedure's addresses: its run in Airflow, its page, its evidence ("" without one), the first page."""
    ours = request.scope.get("root_path", "").rstrip("/")
    dag_id, run_id = quote(procedure.dag_id, safe=""), quote(procedure.run_id, safe="")
    return {
        "run": f"{ours.removesuffix(PREFIX)}/dags/{dag_id}/runs/{run_id}",
        "page": f"{ours}/run?dag_id={dag_id}&run_id={run_id}",
        "evidence": f"{ours}/evidence/{quote(procedure.id, safe='')}" if reading.has_evidence(procedure.id) else "",
        "overview": f"{ours}/",
    }


def _answer(status: int, template: str, **values: Any) -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    policy = f"{_CONTENT_POLICY}; script-src 'nonce-{nonce}'; connect-src 'self'"
    page = render_page(template, nonce=nonce, now=datetime.now(UTC), **values)
    return HTMLResponse(page, status, headers={**_HEADERS, "Content-Security-Policy": policy})
