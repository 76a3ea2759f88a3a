"""# diagnose_replication

Why does the flow from `source` to `target` not replicate: a topic, a group, or nothing at all? Finds out by decision
trees, and changes nothing.

**When to run.** When something is missing on `target`, when lag grows, when a connector is red, or when a RUNNING
connector copies nothing. Also while a procedure holds the clusters, and while a cluster or a worker does not answer.

**Before you start.** Nothing: the run takes no lease, writes no record, and asks no person.

**What you get.** The run ends as `completed` also if it found faults: read the evidence page, or the log of
`diagnose_replication`. Each finding says what was seen, what it means and what to do, and names its heading on the page
`runbooks/diagnose_replication.md`, which has a picture of the trees. *Findings* are faults, and what passes by itself.
*Choices* are settings that may explain what somebody misses. What could not be asked is listed with the reason: about
that the run says nothing.

**If it stops.** Nothing was changed. Clear the red step, or start a new run.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, chain
from kafka_dr.dag_policy import DEFAULT_ARGS, TAGS, procedure_form
from kafka_dr.steps.diagnosis.close_diagnosis import CloseDiagnosis
from kafka_dr.steps.diagnosis.diagnose_replication import DiagnoseReplication
from kafka_dr.steps.diagnosis.open_diagnosis import OpenDiagnosis

with DAG(
    "diagnose_replication",
    schedule=None,
    catchup=False,
    max_active_runs=4,
    params=procedure_form("diagnose_replication"),
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    open_procedure = OpenDiagnosis(task_id="open_procedure")
    diagnose_replication = DiagnoseReplication(task_id="diagnose_replication", execution_timeout=timedelta(minutes=10))
    close_procedure = CloseDiagnosis(task_id="close_procedure", trigger_rule="all_done")

    chain(open_procedure, diagnose_replication, close_procedure)
