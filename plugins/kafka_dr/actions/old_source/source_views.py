"""Observe whether the source answers, from three places: orchestrator, the target's Connect worker, application.

Each place is a *view*; one observation from one view is a *look*; one look from each view is a *round*. A look's result
is ANSWERS, REFUSES_WRITES, SLOW, GONE (no answer) or UNKNOWN (the view could not ask the source).

Invariants
1. A look raises no error of an outside system and never exceeds its time limit: a hanging call remains on a daemon
   thread, for which no process waits.
2. On the source, only the probe's topic, which is Switchback's own, is written to.
3. The orchestrator's look is GONE only if the target answered during the look; if the target did not answer, the
   orchestrator's own network may be broken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures import wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from kafka_dr.actions.fencing.acl_fence import refused_by_rights
from kafka_dr.actions.fencing.probe_topic import make_probe_topic
from kafka_dr.concurrently import run_in_background
from kafka_dr.config.deadlines import Deadlines
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.loss.source_lost import (
    FROM_APPLICATION,
    FROM_CONNECT,
    FROM_HERE,
    Look,
    LossVerdict,
    Sight,
    verdict_of,
)
from kafka_dr.errors import KafkaUnavailable, ReadBackFailed, SwitchbackError
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import Metadata
from kafka_dr.hooks.brokers.record import heartbeat_time, keep_part
from kafka_dr.hooks.brokers.record_writer import RecordWriter, WriteAccepted, WriteResult
from kafka_dr.hooks.connect.connector_state import ConnectorStatus
from kafka_dr.hooks.redaction import one_line
from kafka_dr.procedure.run import Run

T = TypeVar("T")
Tell = Callable[[Sight, str], None]

_LEAST_ROUNDS, _MOST_ROUNDS = 3, 100
#: A look lasts this many times `slow_seconds`, because a shorter look could not distinguish SLOW from GONE.
_LOOK_PER_SLOW_LIMIT = 1.5
#: Share of a look's time that requests get as timeout, because requests must fail before the look ends.
_HOOKS_SHARE = 0.9
_MOST_WRITES = 8
_BEAT_SECONDS = 0.5
#: Errors reported by the Kafka client itself that only a running broker can cause.
_ACCESS_DENIED_ERRORS = frozenset({"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"})


@dataclass(frozen=True)
class Pace:
    """Number of rounds of looks, and seconds per round; rounds times seconds is the time to confirm a loss."""

    rounds: int
    seconds: float


def pace_of(deadlines: Deadlines) -> Pace:
    """Divide `confirm_seconds` into rounds: at least three, each longer than `slow_seconds`."""
    shortest = _LOOK_PER_SLOW_LIMIT * deadlines.slow_seconds
    rounds = min(_MOST_ROUNDS, max(_LEAST_ROUNDS, int(deadlines.confirm_seconds / shortest)))
    return Pace(rounds, max(shortest, deadlines.confirm_seconds / rounds))


def confirm_source_state(procedure: Run, tell: Callable[[str], object] = str) -> LossVerdict:
    """Observe the source from all views in rounds, and return the verdict; a look that ANSWERS ends the rounds.

    Args:
        tell: called after each round with a line of text about the looks of the round.
    """
    pace, began, looks = pace_of(procedure.request.deadlines), time.monotonic(), list[Look]()
    for number in range(pace.rounds):
        time.sleep(max(0.0, began + number * pace.seconds - time.monotonic()))
        procedure.progress.refuse_if_going_back()
        procedure.authority.hold()
        round_looks = [replace(look, round=number) for look in one_round(procedure, pace.seconds)]
        looks += round_looks
        tell(
            f"Round {number + 1} of {pace.rounds}: "
            + "; ".join(
                f"from {look.view}: {look.sight.value.replace('_', ' ')} ({look.words})" for look in round_looks
            )
        )
        if any(look.sight is Sight.ANSWERS for look in round_looks):
            return verdict_of(looks, number + 1)
    return verdict_of(looks, pace.rounds)


def one_round(procedure: Run, seconds: float) -> list[Look]:
    """Return one look from each view, made concurrently within `seconds`."""
    views = (view_from_here, view_from_connect, view_from_application)
    return [future.result() for future in [run_in_background(partial(view, procedure, seconds)) for view in views]]


def _look(view: str, seconds: float, at_first: tuple[Sight, str], see: Callable[[Tell], None]) -> Look:
    """Run `see` for at most `seconds` and return its last report as a look; an error counts as UNKNOWN.

    Args:
        at_first: the report that counts if `see` makes no report.
        see: observes the source, and calls the function that it gets with each report.
    """
    reports, began, at = [at_first], time.monotonic(), datetime.now(UTC).isoformat()
    future = run_in_background(lambda: see(lambda sight, words: reports.append((sight, words))))
    try:
        future.result(seconds)
    except FutureTimeout:
        pass
    except SwitchbackError as error:
        reports.append((Sight.UNKNOWN, str(error)))
    sight, words = reports[-1]
    return Look(view, sight, one_line(words), round(time.monotonic() - began, 3), at)


# -- from here ---------------------------------------------------------------------------------------------------


def view_from_here(procedure: Run, seconds: float) -> Look:
    """Return the orchestrator's look: ask the source for metadata with a new client, then write the probe's topic."""
    allowed, target = _HOOKS_SHARE * seconds, procedure.request.target
    control = run_in_background(lambda: procedure.systems.cluster(target).metadata(allowed))
    look = _look(
        FROM_HERE,
        seconds,
        (Sight.GONE, f"no answer within {seconds:.1f} s"),
        partial(_see_from_here, procedure, allowed),
    )
    if look.sight is Sight.GONE:
        wait([control], max(0.0, seconds - look.seconds))
        if not control.done() or control.exception() is not None:
            return replace(
                look,
                sight=Sight.UNKNOWN,
                words="the target did not answer either: the orchestrator's own network may be broken",
            )
    return look


def _see_from_here(procedure: Run, seconds: float, tell: Tell) -> None:
    began, limit = time.monotonic(), procedure.request.deadlines.slow_seconds
    cluster = procedure.systems.cluster(procedure.request.source)
    try:
        metadata = cluster.metadata(seconds)
    except KafkaUnavailable as error:
        tell(*_judge_missing_metadata(cluster, error))
        return
    took = time.monotonic() - began
    if took > limit:
        tell(Sight.SLOW, f"the source sent metadata after {took:.1f} s")
        return
    tell(Sight.ANSWERS, "the source sent metadata; the time was too short to try a write")
    topic = procedure.systems.own_names.probe
    partitions = _probe_partitions(cluster, topic, metadata, (seconds - took) / 4)
    writer = procedure.systems.writer(procedure.request.source)
    _try_write(writer, topic, partitions, began + seconds - time.monotonic(), limit, tell)


def _judge_missing_metadata(cluster: KafkaCluster, error: KafkaUnavailable) -> tuple[Sight, str]:
    """Return the judgement, and its reason as text, of a source that gave no metadata.

    ANSWERS if a broker answered at all, even by denying access; UNKNOWN if TLS failed; else GONE.
    """
    complaints = cluster.complaints()
    if error.from_broker or complaints & _ACCESS_DENIED_ERRORS:
        return Sight.ANSWERS, f"a broker answered, with an error: {error.seen}"
    if "_SSL" in complaints:
        return Sight.UNKNOWN, f"no TLS connection could be made: {error.seen}"
    return Sight.GONE, error.seen


def _probe_partitions(cluster: KafkaCluster, topic: str, metadata: Metadata, seconds: float) -> dict[int, int | None]:
    """Return partition of the source's probe topic -> its leader, None without a leader.

    The topic is created if it is missing; {} if it could not be created.
    """
    if topic in metadata.leaders:
        return metadata.leaders[topic]
    try:
        make_probe_topic(cluster, topic, metadata.brokers, timeout=seconds)
        return cluster.metadata(seconds).leaders.get(topic, {})
    except (KafkaUnavailable, ReadBackFailed):
        return {}


def _try_write(
    writer: RecordWriter, topic: str, partitions: dict[int, int | None], seconds: float, limit: float, tell: Tell
) -> None:
    led = [partition for partition, leader in partitions.items() if leader is not None][:_MOST_WRITES]
    if not partitions:
        tell(
            Sight.ANSWERS,
            f"the source sent metadata; no write was tried, as the topic {topic} could not be created",
        )
    elif not led:
        tell(Sight.REFUSES_WRITES, f"the source sent metadata, but no partition of {topic} has a leader")
    else:
        tell(Sight.REFUSES_WRITES, f"the source sent metadata, but acknowledged no write within {seconds:.1f} s")
        tell(*_judge_writes(_write_probes(writer, topic, led, seconds), limit))


def _write_probes(
    writer: RecordWriter, topic: str, partitions: Sequence[int], seconds: float
) -> list[tuple[WriteResult, float]]:
    """Write to these partitions of the probe's topic; return (answer, seconds until the answer) of each write.

    Writes without an answer within `seconds` are left out.
    """
    began = time.monotonic()

    def written(partition: int) -> tuple[WriteResult, float]:
        answer = writer.probe(topic, partition, timeout=_HOOKS_SHARE * seconds)
        return answer, time.monotonic() - began

    started = [run_in_background(partial(written, partition)) for partition in partitions]
    return [future.result() for future in wait(started, seconds).done]


def _judge_writes(answers: Sequence[tuple[WriteResult, float]], limit: float) -> tuple[Sight, str]:
    """Return the judgement on answers to writes, and its reason as text.

    A write that was accepted, or refused with an authorization error, proves that a broker runs.

    Args:
        answers: (answer, seconds until the answer) of each write.
        limit: most seconds for the judgement ANSWERS; with a slower answer the judgement is SLOW.
    """
    living = [
        (seconds, answer)
        for answer, seconds in answers
        if isinstance(answer, WriteAccepted) or refused_by_rights(answer)
    ]
    if not living:
        errors = sorted({answer.error for answer, _ in answers if not isinstance(answer, WriteAccepted)})
        return (
            Sight.REFUSES_WRITES,
            f"the source sent metadata, but acknowledged no write: {', '.join(errors) or 'no answer in time'}",
        )
    seconds, answer = min(living, key=lambda pair: pair[0])
    result_text = (
        "accepted a write"
        if isinstance(answer, WriteAccepted)
        else "refused a write with an authorization error, as only a running broker does,"
    )
    return (Sight.SLOW if seconds > limit else Sight.ANSWERS), f"the source {result_text} after {seconds:.1f} s"


# -- from the target's Connect worker ----------------------------------------------------------------------------


def view_from_connect(procedure: Run, seconds: float) -> Look:
    """Return the look from the target's Connect worker: whether MirrorMaker 2 mirrors a newer heartbeat meanwhile.

    A newer heartbeat, by its own timestamp, proves that the source runs. A running connector proves nothing, because
    MirrorMaker 2's tasks continue to poll a source that does not answer. If no newer heartbeat arrives, the look is
    GONE only if heartbeats arrived often enough before the look.
    """
    return _look(
        FROM_CONNECT,
        seconds,
        (Sight.UNKNOWN, "Connect did not answer in time"),
        partial(_see_from_connect, procedure, _HOOKS_SHARE * seconds),
    )


def _see_from_connect(procedure: Run, seconds: float, tell: Tell) -> None:
    ends_at = time.monotonic() + seconds
    # In dedicated mode the states of tasks are unknown: a new heartbeat still proves that the source runs, but a
    # missing heartbeat proves nothing.
    worker = procedure.mirror_maker(procedure.flow) if procedure.flow.connect else None
    statuses = [worker.status(name, seconds) for name in worker.sources] if worker else []
    if statuses and not any("RUNNING" in status.tasks.values() for status in statuses):
        tell(Sight.UNKNOWN, f"no task of MirrorMaker 2 reads the source: {_as_text(statuses)}")
        return
    tell(Sight.UNKNOWN, "the heartbeats on the target could not be read in time")
    heartbeats = newest_heartbeats(procedure, seconds)
    while heartbeats and (remaining := ends_at - time.monotonic()) > 0:
        time.sleep(min(_BEAT_SECONDS, remaining))
        if max(newest_heartbeats(procedure, seconds), default=0) > heartbeats[-1]:
            tell(Sight.ANSWERS, "MirrorMaker 2 mirrored a heartbeat that was written on the source a moment ago")
            return
    tell(*_judge_silence(heartbeats, seconds, statuses))


def _as_text(statuses: Sequence[ConnectorStatus]) -> str:
    return "; ".join(map(str, statuses))


def _judge_silence(heartbeats: Sequence[int], seconds: float, statuses: Sequence[ConnectorStatus]) -> tuple[Sight, str]:
    """Return the look if no new heartbeat was mirrored; `statuses`: of the source connectors, [] in dedicated mode."""
    if len(heartbeats) < 2 or heartbeats[-1] - heartbeats[-2] > 1000 * seconds:
        states = _as_text(statuses) or "dedicated mode"
        return Sight.UNKNOWN, f"heartbeats are too rare, and a running connector proves nothing: {states}"
    since = datetime.fromtimestamp(heartbeats[-1] / 1000, UTC).isoformat(timespec="seconds")
    if not statuses:
        return (
            Sight.UNKNOWN,
            f"no heartbeat since {since}, and in dedicated mode the states of tasks are unknown",
        )
    if not all(status.running for status in statuses):
        return Sight.UNKNOWN, f"no heartbeat since {since}, but not all tasks run: {_as_text(statuses)}"
    return Sight.GONE, f"no heartbeat was mirrored since {since}"


def newest_heartbeats(procedure: Run, seconds: float) -> list[int]:
    """Return source timestamps (ms since 1970, sorted) of the target's newest heartbeats, about two per partition.

    Each source connector of a flow copies every heartbeat: copies of one heartbeat count once.
    """
    topic = procedure.naming.remote(procedure.flow.source, procedure.naming.heartbeats_topic)
    topics = procedure.systems.target.topics([topic], timeout=seconds)
    partitions = [TopicPartition(topic, partition) for partition in topics[topic].partitions] if topic in topics else []
    count = 2 * len(procedure.flow.connectors.source)
    reader = procedure.systems.reader(procedure.request.target)
    tails = reader.last_records(partitions, keep_part(heartbeat_time), count, seconds)
    return sorted({record.part for tail in tails.values() for record in tail.records})


# -- from the application ----------------------------------------------------------------------------------------


def view_from_application(procedure: Run, seconds: float) -> Look:
    """Return the application's look: ask its source probe (an HTTP hook) whether the application reaches the source."""
    return _look(
        FROM_APPLICATION,
        seconds,
        (Sight.UNKNOWN, "the application's source probe did not answer in time"),
        partial(_see_from_application, procedure, _HOOKS_SHARE * seconds),
    )


def _see_from_application(procedure: Run, seconds: float, tell: Tell) -> None:
    probe = procedure.systems.source_probe
    if probe is None:
        tell(Sight.UNKNOWN, "the topology names no source_probe")
        return
    view = probe.view(seconds)
    detail_text = "" if view.detail is None else f", and reports: {probe.shown(view.detail)}"
    if not view.reachable:
        tell(Sight.GONE, f"the application does not reach the source{detail_text}")
    elif view.writable is False:
        tell(Sight.REFUSES_WRITES, f"the application reaches the source and cannot write{detail_text}")
    else:
        tell(Sight.ANSWERS, f"the application {'writes to' if view.writable else 'reaches'} the source{detail_text}")
