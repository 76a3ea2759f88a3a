"""The plugin: light in every process, the web page only where a request comes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import switchback_plugin
from fastapi.testclient import TestClient


def test_the_web_page_costs_other_processes_nothing() -> None:
    """Loaded by Airflow's own loader, as in a task's process: neither our page nor its API are imported."""
    code = (
        "import sys; from airflow import plugins_manager as m; assert any(p.name == 'switchback' for p in"
        " m._get_plugins()[0]); print([n for n in sys.modules if n.startswith(('kafka_dr.web',"
        " 'airflow.api_fastapi.core_api.security'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=dict(os.environ), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip().splitlines()[-1] == "[]", done.stderr[-2000:]


@pytest.mark.parametrize("path", ["/", "/run?dag_id=planned_failover&run_id=r"])
def test_the_mounted_page_asks_who_it_is(path: str) -> None:
    """What the plugin mounts is the real page: 401 without a login."""
    (mounted,) = switchback_plugin.SwitchbackPlugin.fastapi_apps
    assert TestClient(mounted["app"]).get(path).status_code == 401


def test_the_page_is_in_the_navigation_and_beside_every_run() -> None:
    """Both views lead below the mounted prefix; the run's view carries DAG and run."""
    views = {view["destination"]: view["href"] for view in switchback_plugin.SwitchbackPlugin.external_views}
    prefix = switchback_plugin.SwitchbackPlugin.fastapi_apps[0]["url_prefix"]
    assert views == {
        "nav": f"{switchback_plugin.BASE}{prefix}/",
        "dag_run": f"{switchback_plugin.BASE}{prefix}/run?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
    }
