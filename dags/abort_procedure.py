"""# abort_procedure

Stop the procedure that holds the lease on `source` and `target`, and lift its fence: exactly the ACL entries that the
procedure added are removed from the source.

**When to run.** Before `open_target`, when the move must end: clients must not be stopped any longer, the wrong plan
was approved, a step hangs, a gate will get no answer. The abort needs no approval, because clients return to the
source.

**Before you start.** Check in the run that `open_target` has not begun: after that an abort is refused.

**What happens.** The running procedure notices the abort at its next check and returns to the source by itself. If no
task of the procedure runs (a gate waits, the worker is gone), this run returns in its place. The outcome is `aborted`.

**If it stops.** Refused: the point of no return is passed; complete the procedure, or run `failback` later. Failed:
clear the failed task, which continues where it stopped. The page `runbooks/abort_procedure.md` has one heading for
every step.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain
from kafka_dr.dag_policy import DEFAULT_ARGS, TAGS, procedure_form
from kafka_dr.steps.abort.abort_procedure import AbortProcedure
from kafka_dr.steps.abort.close_procedure import CloseAborted
from kafka_dr.steps.abort.return_to_source import ReturnAborted

with DAG(
    "abort_procedure",
    schedule=None,
    catchup=False,
    max_active_runs=4,
    params=procedure_form("abort_procedure"),
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    abort_procedure = AbortProcedure(task_id="abort_procedure")
    return_to_source = ReturnAborted(task_id="return_to_source")
    close_procedure = CloseAborted(task_id="close_procedure")

    chain(abort_procedure, return_to_source, close_procedure)
