"""# doctor

The installation as each queue's workers see it: what `switchback doctor` prints. Nothing is changed.

**When to run.** Before the first procedure, after an upgrade or a change of machines, and whenever a step cannot do
what it should: by the command `switchback doctor`, which starts this DAG and prints what its tasks have seen.

**Before you start.** Nothing. Queues beside Airflow's default queue stand in `SWITCHBACK_QUEUES`.

**What happens.** One task a queue runs all checks on the machine of its worker: connections, addresses, certificates,
rights, Airflow's parts, journal, files, Spark and clocks. Each returns what it has seen; findings fail no task.

**If it stops.** A task that stays queued has no worker on its queue. The page `runbooks/doctor.md` explains each
finding.
"""

from __future__ import annotations

from airflow.sdk import DAG
from kafka_dr.dag_policy import EXAMINING_ARGS, TAGS
from kafka_dr.steps.doctor.examine_machine import examine_queues

with DAG(
    "doctor",
    schedule=None,
    catchup=False,
    default_args=EXAMINING_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    examine_queues()
