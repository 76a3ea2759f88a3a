"""The metrics that Prometheus scrapes; whoever shows the token may read them, and nobody else."""

from __future__ import annotations

import logging
from secrets import compare_digest

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from kafka_dr.actions.metrics.reading import read_metrics
from kafka_dr.config.settings import load_topology
from kafka_dr.config.topology import Topology
from kafka_dr.connections import Connections
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.exposition import CONTENT_TYPE, exposition_of
from kafka_dr.hooks.journal.journal import Journal

router = APIRouter()
_LOG = logging.getLogger(__name__)
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_OFF = "Metrics are not switched on: name a connection with the token under `metrics` in the topology."
_REFUSED = "Send the token of the connection under `metrics` in the topology, as Authorization: Bearer TOKEN."
_UNREADABLE = "The token cannot be read: the log of Airflow's API server says why."


@router.get("/metrics")
def scrape_metrics(request: Request) -> Response:
    """Return all metrics in Prometheus' text format.

    404 if the topology switches no metrics on, 401 without the right token, 503 if the token cannot be read.
    """
    try:
        topology, connections = load_topology(), Connections()
        settings = topology.metrics
        if settings is None or settings.connection is None:
            return _answer(404, _OFF)
        token = connections.token(settings.connection)
    except (SwitchbackError, AirflowNotFoundException) as error:
        _LOG.warning("metrics: %s", error)
        return _answer(503, _UNREADABLE)
    if not _has_token(request, token):
        return _answer(401, _REFUSED, **{"WWW-Authenticate": "Bearer"})
    reading = read_metrics(topology, lambda: _open_journal(topology, connections), files=connections.files(topology))
    return Response(exposition_of(reading.values, reading.problems), headers=_HEADERS, media_type=CONTENT_TYPE)


def _has_token(request: Request, token: str) -> bool:
    """Whether the request shows the token; the comparison takes as long for a wrong one as for the right one."""
    scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
    is_same = compare_digest(shown.strip().encode("utf-8"), token.encode("utf-8"))
    return scheme.lower() == "bearer" and is_same


def _open_journal(topology: Topology, connections: Connections) -> Journal:
    return Journal(connections.journal_url(topology.journal.connection))


def _answer(status: int, text: str, **headers: str) -> Response:
    return PlainTextResponse(f"{text}\n", status, headers={**_HEADERS, **headers})
