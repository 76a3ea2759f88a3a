"""Read-back after return_to_source: is the probe accepted again, do records flow again, which changes remain."""

from __future__ import annotations

import time
from typing import Any

from kafka_dr.actions.fencing.acl_fence import probe_answers
from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.actions.scope.plan_scope import partitions_of_plan
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import SystemUnavailable
from kafka_dr.hooks.brokers.record_writer import WriteAccepted
from kafka_dr.procedure.entries import (
    DrainHookAnswer,
    FailoverForecast,
)
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

#: Longest wait for a first record, written by a client or mirrored; zero counts are reported, not waited for.
_FIRST_RECORD_SECONDS = 10.0
_POLL_SECONDS = 0.2
_ON_RETURNED_CLUSTER = (
    Step.FENCE_RETURNED_CLUSTER,
    Step.PREPARE_TOPICS,
    Step.RECONCILE_STRANDED_RECORDS,
    Step.SEED_FLOW_BACK,
    Step.START_FLOW_BACK,
)


def left_on_returned_cluster(procedure: Run) -> list[str] | None:
    """Steps of a failback on the returned cluster whose changes stay for the next run; None if none was begun.

    Above all the fence stays: while clients work on the other cluster, no client may write here.
    """
    return [step.value for step in _ON_RETURNED_CLUSTER if procedure.progress.began(step) is not None] or None


def probe_refused_by(procedure: Run) -> dict[str, str]:
    """Brokers that still refuse the probe's write at most 10 s after the fence was lifted, with their answers."""
    ends_at = time.monotonic() + min(_FIRST_RECORD_SECONDS, procedure.request.deadlines.fence_seconds)
    while True:
        answers = probe_answers(procedure) or {}
        refusing = {
            str(broker): str(answer) for broker, answer in answers.items() if not isinstance(answer, WriteAccepted)
        }
        if not refusing or time.monotonic() > ends_at:
            return refusing
        time.sleep(_POLL_SECONDS)


def seen_flowing(procedure: Run, drain_answer: DrainHookAnswer) -> dict[str, Any]:
    """Count records written by clients and mirrored since the fence was lifted, or report why the count failed.

    Args:
        drain_answer: the drain hook's answer; only with producers running, the first records are waited for up to 10 s.

    Returns {} without a forecast: no plan names the topics.
    """
    if procedure.progress.done(FailoverForecast) is None:
        return {}
    try:
        return _count_new_records(procedure, drain_answer)
    except SystemUnavailable as error:
        return {"records_not_seen": str(error)}


def _count_new_records(procedure: Run, drain_answer: DrainHookAnswer) -> dict[str, int]:
    partitions = partitions_of_plan(procedure)
    remote = remote_partitions(procedure, partitions)
    before = _sum_log_ends(procedure, remote)
    ends_at = time.monotonic() + (
        _FIRST_RECORD_SECONDS if drain_answer.producers_running else procedure.request.deadlines.stable_seconds
    )
    while True:
        time.sleep(min(_POLL_SECONDS, procedure.request.deadlines.stable_seconds))
        written, mirrored = (
            now - earlier for now, earlier in zip(_sum_log_ends(procedure, remote), before, strict=True)
        )
        if (written and mirrored) or time.monotonic() > ends_at:
            return {"records_written_since": written, "records_mirrored_since": mirrored}


def _sum_log_ends(procedure: Run, remote: dict[TopicPartition, TopicPartition]) -> tuple[int, int]:
    """Sums of the log ends on the source and on the target."""
    return sum(procedure.systems.source.ends(list(remote)).values()), sum(
        procedure.systems.target.ends(list(remote.values())).values()
    )
