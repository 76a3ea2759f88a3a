"""Airflow plugin: adds the web page, and imports the steps' modules once, in the scheduler.

Tasks are forked from the scheduler: a module that the scheduler has imported is not imported again in each task, which
would delay the step.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import airflow.providers.apache.spark.operators.spark_submit
import airflow.providers.standard.operators.hitl
import airflow.providers.standard.triggers.temporal  # noqa: F401
import airflow_client.client
import confluent_kafka.admin
import kafka_dr.steps.planned.approve_failover
import kafka_dr.steps.planned.check_readiness
import kafka_dr.steps.planned.commit_groups
import kafka_dr.steps.planned.drain_consumers
import kafka_dr.steps.planned.fence_producers
import kafka_dr.steps.planned.forecast
import kafka_dr.steps.planned.open_target
import kafka_dr.steps.planned.seed_reverse_replication
import kafka_dr.steps.planned.start_reverse_replication
import kafka_dr.steps.planned.stop_mirror_maker
import kafka_dr.steps.planned.translate_offsets
import kafka_dr.steps.planned.wait_for_zero_lag
import kafka_dr.steps.shared.close_procedure
import kafka_dr.steps.shared.open_procedure
import kafka_dr.steps.shared.redirect_clients
import kafka_dr.steps.shared.return_to_source
import kafka_dr.steps.shared.review_translation
import kafka_dr.steps.shared.verify_clients  # noqa: F401
import pandas  # noqa: ICN001 (imported only to be loaded)
import pyarrow.parquet
import sqlalchemy.dialects.sqlite  # noqa: F401
from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

PRELOADED = (airflow_client.client, confluent_kafka.admin, pandas, pyarrow.parquet)
PREFIX = "/switchback"
#: Path under which Airflow is served; empty at the root.
BASE = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


class WebPage:
    """The web page as an ASGI application, imported on the first request, as only the API server gets requests."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request to the web page."""
        from kafka_dr.web.app import app  # noqa: PLC0415 (workers that load plugins serve no page)

        await app(scope, receive, send)


class SwitchbackPlugin(AirflowPlugin):
    """Adds a page of running procedures to Airflow's navigation, and a tab with the procedure to every DAG run."""

    name = "switchback"
    fastapi_apps = [{"app": WebPage(), "url_prefix": PREFIX, "name": "Switchback"}]
    external_views = [
        {
            "name": "Switchback",
            "href": f"{BASE}{PREFIX}/",
            "destination": "nav",
            "url_route": "switchback",
            "nav_top_level": True,
        },
        {
            "name": "Switchback",
            "href": f"{BASE}{PREFIX}/run?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "switchback-run",
        },
    ]
