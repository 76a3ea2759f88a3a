"""How the source looks from three sides: from here, from the target's Connect worker, from the application.

Invariants
1. A look never raises for what outside systems do, and never outlasts its time: what hangs is left behind on a thread
   that nobody waits for.
2. Nothing is written but records to the probe's topic, a topic of our own.
3. From here the source is gone only where the target answered meanwhile: else it may be our own network that is broken.
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

from kafka_dr.actions.concurrently import run_in_background
from kafka_dr.actions.fencing.acl_fence import make_probe_topic, refused_by_rights
from kafka_dr.config.topology import Deadlines
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
from kafka_dr.domain.mirror_maker.mirror_records import decode_heartbeat
from kafka_dr.errors import KafkaUnavailable, ReadBackFailed, SwitchbackError
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.descriptions import Metadata
from kafka_dr.hooks.brokers.record_writer import RecordWriter, WriteAccepted, WriteResult
from kafka_dr.hooks.connect.mirror_maker import ConnectorStatus
from kafka_dr.hooks.redaction import one_line
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import PROBE_TOPIC

T = TypeVar("T")
Tell = Callable[[Sight, str], None]

_LEAST_ROUNDS, _MOST_ROUNDS = 3, 100
#: A look lasts longer than an answer may take before it is slow: else slow and gone could not be told apart.
_LONGER_THAN_SLOW = 1.5
#: What hooks are given of a look's time; the rest is for them to notice that it is over.
_HOOKS_SHARE = 0.9
_MOST_WRITES = 8
_BEAT_SECONDS = 0.5
#: The client's own errors that only a living broker can cause.
_LET_US_NOT_IN = frozenset({"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"})


@dataclass(frozen=True)
class Pace:
    """How often the source is looked at, and how long each look may last; together the window."""

    rounds: int
    seconds: float


def pace_of(deadlines: Deadlines) -> Pace:
    """Fit rounds into `confirm_seconds`, three at least; each round outlasts a slow answer."""
    shortest = _LONGER_THAN_SLOW * deadlines.slow_seconds
    rounds = min(_MOST_ROUNDS, max(_LEAST_ROUNDS, int(deadlines.confirm_seconds / shortest)))
    return Pace(rounds, max(shortest, deadlines.confirm_seconds / rounds))


def confirm_source_state(procedure: Run, tell: Callable[[str], object] = str) -> LossVerdict:
    """Look from all sides, again and again over the window; whoever sees the source answer ends it at once.

    Args:
        tell: called with a line of progress after each round.
    """
    pace, began, looks = pace_of(procedure.request.deadlines), time.monotonic(), list[Look]()
    for number in range(pace.rounds):
        time.sleep(max(0.0, began + number * pace.seconds - time.monotonic()))
        procedure.progress.refuse_if_going_back()
        procedure.authority.hold()
        found = [replace(look, round=number) for look in one_round(procedure, pace.seconds)]
        looks += found
        tell(
            f"Round {number + 1} of {pace.rounds}: "
            + "; ".join(f"from {look.view}: {look.sight.value.replace('_', ' ')} ({look.words})" for look in found)
        )
        if any(look.sight is Sight.ANSWERS for look in found):
            return verdict_of(looks, number + 1)
    return verdict_of(looks, pace.rounds)


def one_round(procedure: Run, seconds: float) -> list[Look]:
    """One look from every side, all at once; ends with the last of them, within the time of one."""
    views = (view_from_here, view_from_connect, view_from_application)
    return [future.result() for future in [run_in_background(partial(view, procedure, seconds)) for view in views]]


def _look(view: str, seconds: float, at_first: tuple[Sight, str], see: Callable[[Tell], None]) -> Look:
    """Run `see` for some seconds and take its last report; a failing system counts as UNKNOWN."""
    told, began, at = [at_first], time.monotonic(), datetime.now(UTC).isoformat()
    seen = run_in_background(lambda: see(lambda sight, words: told.append((sight, words))))
    try:
        seen.result(seconds)
    except FutureTimeout:
        pass
    except SwitchbackError as error:
        told.append((Sight.UNKNOWN, str(error)))
    sight, words = told[-1]
    return Look(view, sight, one_line(words), round(time.monotonic() - began, 3), at)


# -- from here ---------------------------------------------------------------------------------------------------


def view_from_here(procedure: Run, seconds: float) -> Look:
    """Ask the source for metadata with a fresh client, then write to the probe topic as the orchestrator."""
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
                words="the target did not answer either: it may be our own network that is broken",
            )
    return look


def _see_from_here(procedure: Run, seconds: float, tell: Tell) -> None:
    began, limit = time.monotonic(), procedure.request.deadlines.slow_seconds
    cluster = procedure.systems.cluster(procedure.request.source)
    try:
        found = cluster.metadata(seconds)
    except KafkaUnavailable as error:
        tell(*_without_metadata(cluster, error))
        return
    took = time.monotonic() - began
    if took > limit:
        tell(Sight.SLOW, f"it described itself after {took:.1f} s")
        return
    tell(Sight.ANSWERS, "it described itself; there was no time to try a write")
    partitions = _probe_partitions(cluster, found, (seconds - took) / 4)
    _see_a_write(
        procedure.systems.writer(procedure.request.source), partitions, began + seconds - time.monotonic(), limit, tell
    )


def _without_metadata(cluster: KafkaCluster, error: KafkaUnavailable) -> tuple[Sight, str]:
    """Gone, unless a broker said anything at all: one that does not let us in is alive."""
    complaints = cluster.complaints()
    if error.from_broker or complaints & _LET_US_NOT_IN:
        return Sight.ANSWERS, f"a broker answered, with an error: {error.seen}"
    if "_SSL" in complaints:
        return Sight.UNKNOWN, f"no TLS connection could be made: {error.seen}"
    return Sight.GONE, error.seen


def _probe_partitions(cluster: KafkaCluster, found: Metadata, seconds: float) -> dict[int, int | None]:
    """Leaders of the probe topic's partitions, created where missing; {} where creating it is impossible."""
    if PROBE_TOPIC in found.leaders:
        return found.leaders[PROBE_TOPIC]
    try:
        make_probe_topic(cluster, found.brokers, timeout=seconds)
        return cluster.metadata(seconds).leaders.get(PROBE_TOPIC, {})
    except (KafkaUnavailable, ReadBackFailed):
        return {}


def _see_a_write(
    writer: RecordWriter, partitions: dict[int, int | None], seconds: float, limit: float, tell: Tell
) -> None:
    led = [partition for partition, leader in partitions.items() if leader is not None][:_MOST_WRITES]
    if not partitions:
        tell(
            Sight.ANSWERS,
            f"it described itself; no write was tried, as {PROBE_TOPIC} is not there and could not be made",
        )
    elif not led:
        tell(Sight.REFUSES_WRITES, f"it described itself, but no partition of {PROBE_TOPIC} has a leader")
    else:
        tell(Sight.REFUSES_WRITES, f"it described itself, but acknowledged no write within {seconds:.1f} s")
        tell(*_of_writes(_answers_to_writes(writer, led, seconds), limit))


def _answers_to_writes(
    writer: RecordWriter, partitions: Sequence[int], seconds: float
) -> list[tuple[WriteResult, float]]:
    """What the leaders answered in time, and after how many seconds."""
    began = time.monotonic()

    def written(partition: int) -> tuple[WriteResult, float]:
        answer = writer.probe(PROBE_TOPIC, partition, timeout=_HOOKS_SHARE * seconds)
        return answer, time.monotonic() - began

    started = [run_in_background(partial(written, partition)) for partition in partitions]
    return [future.result() for future in wait(started, seconds).done]


def _of_writes(answers: Sequence[tuple[WriteResult, float]], limit: float) -> tuple[Sight, str]:
    """Judge write results: one accepting partition suffices; a refusal for lack of rights is from a living broker."""
    alive = [
        (seconds, answer)
        for answer, seconds in answers
        if isinstance(answer, WriteAccepted) or refused_by_rights(answer)
    ]
    if not alive:
        errors = sorted({answer.error for answer, _ in answers if not isinstance(answer, WriteAccepted)})
        return (
            Sight.REFUSES_WRITES,
            f"it described itself, but acknowledged no write: {', '.join(errors) or 'no answer in time'}",
        )
    seconds, answer = min(alive, key=lambda one: one[0])
    what = (
        "took a write"
        if isinstance(answer, WriteAccepted)
        else "refused a write for want of rights, as only a living broker does,"
    )
    return (Sight.SLOW if seconds > limit else Sight.ANSWERS), f"it {what} after {seconds:.1f} s"


# -- from the target's Connect worker ----------------------------------------------------------------------------


def view_from_connect(procedure: Run, seconds: float) -> Look:
    """Watch for a heartbeat that was written on the source and mirrored since the look began.

    A running connector proves nothing: MirrorMaker 2's tasks go on asking a source that is dead. What proves that it
    lives is a newer heartbeat on the target, by the heartbeats' own times. Silence says something only where heartbeats
    were coming, often enough.
    """
    return _look(
        FROM_CONNECT,
        seconds,
        (Sight.UNKNOWN, "Connect did not answer in time"),
        partial(_see_from_connect, procedure, _HOOKS_SHARE * seconds),
    )


def _see_from_connect(procedure: Run, seconds: float, tell: Tell) -> None:
    ends_at = time.monotonic() + seconds
    # In dedicated mode nobody tells how the tasks are: a heartbeat that arrives says as much as ever, silence says
    # nothing.
    status = (
        procedure.mirror_maker(procedure.flow).status(procedure.flow.connectors.source, seconds)
        if procedure.flow.connect
        else None
    )
    if status and "RUNNING" not in status.tasks.values():
        tell(Sight.UNKNOWN, f"no task reads the source: {status}")
        return
    tell(Sight.UNKNOWN, "the heartbeats on the target could not be read in time")
    known = newest_heartbeats(procedure, seconds)
    while known and (left := ends_at - time.monotonic()) > 0:
        time.sleep(min(_BEAT_SECONDS, left))
        if max(newest_heartbeats(procedure, seconds), default=0) > known[-1]:
            tell(Sight.ANSWERS, "MirrorMaker 2 mirrored a heartbeat that was written on it a moment ago")
            return
    tell(*_of_silence(known, seconds, status))


def _of_silence(known: Sequence[int], seconds: float, status: ConnectorStatus | None) -> tuple[Sight, str]:
    if len(known) < 2 or known[-1] - known[-2] > 1000 * seconds:
        return (
            Sight.UNKNOWN,
            f"heartbeats come too rarely to tell, and a running connector proves nothing: {status or 'dedicated mode'}",
        )
    since = datetime.fromtimestamp(known[-1] / 1000, UTC).isoformat(timespec="seconds")
    if status is None:
        return (
            Sight.UNKNOWN,
            f"no heartbeat since {since}, and in dedicated mode nobody tells whether a task reads the source",
        )
    if not status.running:
        return Sight.UNKNOWN, f"no heartbeat since {since}, but not all tasks run: {status}"
    return Sight.GONE, f"no heartbeat was mirrored since the one of {since}"


def newest_heartbeats(procedure: Run, seconds: float) -> list[int]:
    """When mirrored heartbeats were written on the source (ms since 1970): newest two a partition at most, sorted."""
    topic = procedure.naming.remote(procedure.flow.source, procedure.naming.heartbeats_topic)
    found = procedure.systems.target.topics([topic], timeout=seconds)
    partitions = [TopicPartition(topic, p) for p in found[topic].partitions] if topic in found else []
    tails = procedure.systems.reader(procedure.request.target).last_records(partitions, 2, timeout=seconds)
    return sorted(
        decode_heartbeat(record.key, record.value).timestamp for tail in tails.values() for record in tail.records
    )


# -- from the application ----------------------------------------------------------------------------------------


def view_from_application(procedure: Run, seconds: float) -> Look:
    """Ask the application's own probe."""
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
    seen = probe.view(seconds)
    said = "" if seen.detail is None else f", and says: {probe.shown(seen.detail)}"
    if not seen.reachable:
        tell(Sight.GONE, f"it does not reach the source{said}")
    elif seen.writable is False:
        tell(Sight.REFUSES_WRITES, f"it reaches the source and cannot write{said}")
    else:
        tell(Sight.ANSWERS, f"it {'writes to' if seen.writable else 'reaches'} the source{said}")
