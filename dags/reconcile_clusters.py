"""# reconcile_clusters

Compare what `source` and `target` hold, record by record, and list each record that differs.

**When to run.** After a failover or failback; before a drill; regularly, for example each night for the records of the
day before (`since`, `until`). The run changes nothing on either cluster, needs no approval, and may run beside any
other procedure, while clients write.

**Before you start.** Choose what to compare: `topics`, and a time or a range of offsets where the logs are large. Spark
reads both clusters' records between these bounds once.

**If it stops.** Nothing was changed, and the run ends as refused: read the reason, then start a new run. Records that
differ do not fail the run: they stand in its evidence, with a warning. The page `runbooks/reconcile_clusters.md` has
one heading for every step.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain
from kafka_dr.dag_policy import DEFAULT_ARGS, TAGS, procedure_form
from kafka_dr.steps.reconciliation.compare_records import CompareRecords
from kafka_dr.steps.reconciliation.open_comparison import OpenComparison
from kafka_dr.steps.reconciliation.set_bounds import SetBounds
from kafka_dr.steps.shared.close_procedure import CloseProcedure

with DAG(
    "reconcile_clusters",
    schedule=None,
    catchup=False,
    max_active_runs=4,
    params=procedure_form("reconcile_clusters"),
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    open_procedure = OpenComparison(task_id="open_procedure")
    set_bounds = SetBounds(task_id="set_bounds")
    compare_records = CompareRecords(task_id="compare_records")
    close_procedure = CloseProcedure(task_id="close_procedure", trigger_rule="all_done")

    chain(open_procedure, set_bounds, compare_records, close_procedure)
