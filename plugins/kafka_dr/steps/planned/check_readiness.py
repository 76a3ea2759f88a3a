"""Check whether the clients can move now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow.providers.common.compat.sdk import conf

from kafka_dr.actions.access.trials import log_in_applications, try_applications
from kafka_dr.actions.fencing.acl_fence import refuse_probe_without_rights
from kafka_dr.actions.fencing.exempt_canary import CanaryVerdict, copy_canary
from kafka_dr.actions.fencing.open_transactions import transactions_can_be_ended
from kafka_dr.actions.readiness.observe import observed_at_rest
from kafka_dr.actions.readiness.plan import kept_for_forecast, records_per_second
from kafka_dr.actions.readiness.shared_files import see_files
from kafka_dr.actions.readiness.topic_ids import known_topic_ids
from kafka_dr.concurrently import run_concurrently
from kafka_dr.domain.access.trial import AccessTrial
from kafka_dr.domain.access.verdict import proven_access
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.alike_connectors import isolation_of
from kafka_dr.domain.readiness.notes import list_notes
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.domain.readiness.readiness import find_blockers
from kafka_dr.errors import NotReady
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import ReadinessBlocked, ReadinessChecked
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class CheckReadiness(ProcedureStep):
    """Run all readiness checks; if one fails, end the procedure before clients are fenced on the source.

    In a failback the returned cluster is already fenced then, and its topics are prepared; fence and topics remain.

    Attributes:
        writes: whether MirrorMaker 2 is made to copy a canary, and rights of the probe and of applications are tried.
    """

    writes = True

    def act(self, procedure: Run, context: Any) -> ReadinessChecked:
        """Observe both clusters, run the checks; record topic ids, by which a later run detects recreated topics."""
        procedure.refuse_open_files()
        read_at, acknowledged = procedure.now(), procedure.request.choices.get("acknowledge_recreated_topics", False)
        with run_concurrently() as start:
            canary = start(copy_canary, procedure, self.task_id) if self.writes else None
            access = start(self._tried_access, procedure)
            observation = observed_at_rest(procedure, {} if acknowledged else known_topic_ids(procedure))
        trials, left = access.result()
        observation = replace(observation, trials=trials)
        self.keep(procedure, observation)
        files = see_files(procedure, conf.get("core", "executor", fallback="LocalExecutor"))
        blockers = [*find_blockers(observation), *files.blockers]
        if blockers:
            record_fact(procedure.authority, self.task_id, ReadinessBlocked(blockers=[b.as_dict() for b in blockers]))
            listed = "; ".join(f"{b.gate}: {b.reason} ({b.seen})" for b in blockers)
            raise NotReady(
                "1 readiness check failed" if len(blockers) == 1 else f"{len(blockers)} readiness checks failed",
                listed,
                " ".join(dict.fromkeys(f"{b.gate}: {b.next_step}" for b in blockers)),
            )
        exempt: CanaryVerdict = canary.result() if canary else CanaryVerdict(False)
        transactions_can_be_ended(procedure)
        if self.writes:
            refuse_probe_without_rights(procedure)
        procedure.systems.connections.check_spark(procedure.topology.spark.connection)
        return ReadinessChecked(
            topics=len(observation.scope),
            groups=len(observation.groups),
            notes=[*list_notes(observation), *([exempt.note] if exempt.note else []), *left],
            records_per_second=records_per_second(observation),
            isolation=isolation_of(observation.flow.source_config),
            exempt_proven=exempt.proven,
            exempt_seconds=exempt.seconds,
            access=proven_access(observation) or None,
            files_seen_on=files.machines,
            files_at=procedure.topology.evidence if files.machines else None,
            topic_ids={t: observation.source.topics[t].topic_id for t in observation.scope},
            **kept_for_forecast(procedure, observation.positions, read_at),
        )

    def _tried_access(self, procedure: Run) -> tuple[tuple[AccessTrial, ...], list[str]]:
        """Return what applications' own logins showed on the target, and a note on what was left there."""
        if not self.writes:
            return log_in_applications(procedure), []
        trials, left = try_applications(procedure, self.task_id)
        return trials, [f"Not removed after the trial of applications' logins: {first_few(left)}."] if left else []

    def keep(self, procedure: Run, observation: Observation) -> None:
        """Do what a subclass does with the observation before it is judged; here nothing."""
