"""# failover_drill

Rehearse a failover on the real clusters, and have a report that an auditor accepts.

**When to run.** By `schedule_drills`, when a drill is due; or by hand with `kind`. `observe` changes nothing. `canary`
moves topics, groups and clients of the drill's own to `target` and back, twice: planned, and with the source out of
reach. `full` is announced, and people move the real clients by `planned_failover` and `failback` meanwhile.

**Before you start.** A canary drill needs Connect workers and clients of its own, a marker of the environment on each
cluster, and one exclusion in production's flows: `runbooks/failover_drill.md` has the commands. It refuses otherwise.

**If it stops.** A drill never holds the clusters: a procedure that starts takes precedence at any moment, and the drill
ends. What a drill has made is removed by `clean_drill`, or later by `schedule_drills`.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain
from kafka_dr.dag_policy import DEFAULT_ARGS, TAGS, group_phase, procedure_form
from kafka_dr.steps.drill.announce_drill import AnnounceDrill
from kafka_dr.steps.drill.clean_drill import CleanDrill
from kafka_dr.steps.drill.close_drill import CloseDrill
from kafka_dr.steps.drill.observe_readiness import ObserveReadiness
from kafka_dr.steps.drill.open_drill import OpenDrill
from kafka_dr.steps.drill.prepare_drill import PrepareDrill
from kafka_dr.steps.drill.run_drill_clients import RunDrillClients
from kafka_dr.steps.drill.run_procedure import RunProcedure
from kafka_dr.steps.drill.sign_off_drill import SignOffDrill
from kafka_dr.steps.planned.forecast import Forecast

with DAG(
    "failover_drill",
    schedule=None,
    catchup=False,
    max_active_runs=2,
    params=procedure_form("failover_drill"),
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=__doc__,
) as dag:
    with group_phase("observe"):
        open_procedure = OpenDrill(task_id="open_procedure")
        check_readiness = ObserveReadiness(task_id="check_readiness")
        forecast = Forecast(task_id="forecast")
        announce_drill = AnnounceDrill(task_id="announce_drill")
    with group_phase("move there and back"):
        prepare_drill = PrepareDrill(task_id="prepare_drill")
        run_drill_clients = RunDrillClients(task_id="run_drill_clients")
        run_planned_failover = RunProcedure(procedure_dag="planned_failover", task_id="run_planned_failover")
        run_failback = RunProcedure(procedure_dag="failback", back=True, task_id="run_failback")
        run_unplanned_failover = RunProcedure(procedure_dag="unplanned_failover", task_id="run_unplanned_failover")
        run_second_failback = RunProcedure(procedure_dag="failback", back=True, task_id="run_second_failback")
        clean_drill = CleanDrill(task_id="clean_drill", trigger_rule="all_done")
    with group_phase("sign and close"):
        sign_off_drill = SignOffDrill(task_id="sign_off_drill", trigger_rule="all_done")
        close_procedure = CloseDrill(task_id="close_procedure", trigger_rule="all_done")

    chain(open_procedure, check_readiness, forecast, announce_drill, prepare_drill)
    chain(prepare_drill, run_planned_failover, run_failback, run_unplanned_failover, run_second_failback, clean_drill)
    chain(prepare_drill, run_drill_clients)
    chain(clean_drill, sign_off_drill, close_procedure)
