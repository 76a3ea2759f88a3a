"""What is left after a return to the source, and what is seen to flow again."""

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

#: How long a first record is waited for, written by a client or mirrored: what does not come is said, not waited for.
_SHOW_SECONDS = 10.0
_LOOK_AGAIN_SECONDS = 0.2
_ON_RETURNED_CLUSTER = (
    Step.FENCE_RETURNED_CLUSTER,
    Step.PREPARE_TOPICS,
    Step.RECONCILE_STRANDED_RECORDS,
    Step.SEED_FLOW_BACK,
    Step.START_FLOW_BACK,
)


def left_on_returned_cluster(procedure: Run) -> list[str] | None:
    """What a failback did on the cluster without clients; it stays for the next run. None where nothing was done.

    Its fence above all: while its clients work elsewhere, nobody may write there.
    """
    return [step.value for step in _ON_RETURNED_CLUSTER if procedure.progress.began(step) is not None] or None


def probe_refused_by(procedure: Run) -> dict[str, str]:
    """Brokers that still refuse the probe's write some seconds after the fence was lifted, and their errors."""
    ends_at = time.monotonic() + min(_SHOW_SECONDS, procedure.request.deadlines.fence_seconds)
    while True:
        answers = probe_answers(procedure) or {}
        refusing = {
            str(broker): str(answer) for broker, answer in answers.items() if not isinstance(answer, WriteAccepted)
        }
        if not refusing or time.monotonic() > ends_at:
            return refusing
        time.sleep(_LOOK_AGAIN_SECONDS)


def seen_flowing(procedure: Run, told: DrainHookAnswer) -> dict[str, Any]:
    """Count records clients wrote since they were let in and records mirrored; or tell why that cannot be seen.

    Args:
        told: what the drain hook answered; only if it says that producers run, their first records are waited for.

    Without a forecast nothing is looked at: no plan names the topics.
    """
    if procedure.progress.done(FailoverForecast) is None:
        return {}
    try:
        return _flowing(procedure, told)
    except SystemUnavailable as error:
        return {"records_not_seen": str(error)}


def _flowing(procedure: Run, told: DrainHookAnswer) -> dict[str, int]:
    partitions = partitions_of_plan(procedure)
    remote = remote_partitions(procedure, partitions)
    before = _sums(procedure, remote)
    ends_at = time.monotonic() + (
        _SHOW_SECONDS if told.producers_running else procedure.request.deadlines.stable_seconds
    )
    while True:
        time.sleep(min(_LOOK_AGAIN_SECONDS, procedure.request.deadlines.stable_seconds))
        written, mirrored = (now - then for now, then in zip(_sums(procedure, remote), before, strict=True))
        if (written and mirrored) or time.monotonic() > ends_at:
            return {"records_written_since": written, "records_mirrored_since": mirrored}


def _sums(procedure: Run, remote: dict[TopicPartition, TopicPartition]) -> tuple[int, int]:
    """Sum of the log ends on the source and on the target."""
    return sum(procedure.systems.source.ends(list(remote)).values()), sum(
        procedure.systems.target.ends(list(remote.values())).values()
    )
