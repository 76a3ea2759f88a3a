"""A drill's clients, as the task run_drill_clients runs them, on a lab without Airflow: RUN_ID and params as JSON."""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace

os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")

from tests.faults.support.step_server import load_dag

if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    run = SimpleNamespace(dag_id="failover_drill", run_id=asked["run_id"])
    load_dag("failover_drill").get_task("run_drill_clients").execute({"dag_run": run, "params": asked["params"]})
