"""Findings from signs of life and limits: heartbeats, internal topics, recorder, watcher, lag, certificates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from kafka_dr.domain.plain_text import count_of, first_few, format_duration
from kafka_dr.domain.readiness.lag import FlowLag
from kafka_dr.domain.readiness.movements import Movement
from kafka_dr.domain.readiness.state import Gravity, ReadinessFinding
from kafka_dr.domain.silence import SILENT_SECONDS, recorder_limit


def topics_awaited(
    missing: Iterable[str], copied: Iterable[str], before: Mapping[str, float], now: float
) -> dict[str, float]:
    """Return topic -> since when its creation on the target is awaited, of topics of which nothing was ever copied.

    Args:
        missing: source topics that the target lacks.
        copied: source topics of which Connect stores an offset.
        before: what the check before has returned.
    """
    return {topic: before.get(topic, now) for topic in sorted(set(missing) - set(copied))}


def lag_findings(
    lag: FlowLag, record_age_seconds: float, lag_records: int | None, lag_bytes: int | None
) -> Iterator[ReadinessFinding]:
    """Yield a finding for each limit that the lag exceeds.

    Args:
        record_age_seconds: largest age of a record that waits for its copy.
        lag_records, lag_bytes: largest lag; None: any lag.
    """
    seconds, size = lag.seconds, lag.bytes
    if seconds is not None and seconds > record_age_seconds:
        yield _failed("record_age", f"a record waits for its copy for {_seconds(seconds, record_age_seconds)}")
    if lag_records is not None and lag.records > lag_records:
        yield _failed("lag_records", f"the target lacks up to {lag.records:,} records, at most {lag_records:,} may")
    if lag_bytes is not None and size is not None and size > lag_bytes:
        yield _failed("lag_bytes", f"the target lacks about {size:,} bytes, at most {lag_bytes:,} may be")


def growth_findings(source: tuple[int, int], target: tuple[int, int], share: float) -> Iterator[ReadinessFinding]:
    """Yield a finding if the target's logs grew by much less than the source's since the last check.

    Args:
        source, target: sums of log ends, at the last check and now.
        share: least share of the source's growth by which the target must grow.
    """
    written, copied = source[1] - source[0], target[1] - target[0]
    if written > 0 and copied < share * written:
        yield _failed(
            "records_copied", f"since the last check {written:,} records were written, {max(0, copied):,} copied"
        )


def heartbeat_findings(age: float | None, oldest_seconds: float) -> Iterator[ReadinessFinding]:
    """Yield a finding if the newest mirrored heartbeat is older than replication may take; `age`: None if unknown."""
    if age is not None and age > oldest_seconds:
        yield _failed(
            "replication_latency", f"the age of the newest mirrored heartbeat is {_seconds(age, oldest_seconds)}"
        )


def quiet_findings(
    what: str, newest: float | None, causes: Iterable[Movement | None], now: float, seconds: float
) -> Iterator[ReadinessFinding]:
    """Yield a finding if an internal topic got no record although all that causes its records has moved.

    Args:
        what: `checkpoints` or `offset_syncs`.
        newest: time of the topic's newest record, in seconds since 1970; None without a record.
        causes: movements as of the last check; None: there was no check.
        seconds: how long the topic may take after a movement was seen.
    """
    moved = list(causes)
    spans = [
        (m.changed_from, m.changed_to) for m in moved if m and m.changed_from is not None and m.changed_to is not None
    ]
    if not moved or len(spans) < len(moved):
        return
    began, seen = min(start for start, _ in spans), max(end for _, end in spans)
    if now - seen >= seconds and (newest is None or newest < began):
        age = "ever" if newest is None else f"for {format_duration(round(now - newest))}"
        yield _failed(f"{what}_quiet", f"no new record {age}, although records and positions moved")


def watcher_findings(age: float | None) -> Iterator[ReadinessFinding]:
    """Yield a finding if the watcher shows no life; `age` of its last sign, None: it never showed any."""
    if age is None or age >= SILENT_SECONDS:
        seen = "never showed life" if age is None else f"showed life {format_duration(round(age))} ago"
        yield _failed("watcher_silent", f"watch_old_source {seen}")


def recorder_findings(age: float | None, interval_seconds: float) -> Iterator[ReadinessFinding]:
    """Yield a finding if the flight recorder stored no sample lately; `age`: None if there is no sample."""
    limit = recorder_limit(interval_seconds)
    if age is None or age >= limit:
        seen = "has stored no sample" if age is None else f"has stored no sample for {_seconds(age, limit)}"
        yield _failed("recorder_silent", f"the flight recorder {seen}")


@dataclass(frozen=True)
class WarmMachineProof:
    """The newest procedure of a flow that the command `run` completed on the warm machine; `ended_at` since 1970."""

    procedure_id: str
    ended_at: float


def warm_machine_findings(
    machine: str, proof: WarmMachineProof | None, now: float, days: float
) -> Iterator[ReadinessFinding]:
    """Yield a finding unless the warm machine has proved lately that it runs procedures without the site's Airflow.

    Args:
        proof: None: it never did.
        days: how old the proof may be.
    """
    age_days = None if proof is None else (now - proof.ended_at) / 86_400
    if age_days is not None and age_days <= days:
        return
    last = "" if proof is None else f" since {proof.procedure_id}, {age_days:.1f} days ago (at most {days:g})"
    text = f"`switchback run` has completed no procedure of this flow on {machine}{last}"
    yield ReadinessFinding("warm_machine_unproven", Gravity.UNVERIFIED, machine, text)


@dataclass(frozen=True)
class RecorderPace:
    """How the flight recorder keeps up, by its newest sample; times in seconds.

    Attributes:
        interval_seconds: the interval at which it should take samples.
        every_seconds: the interval at which it does, as the median of its last samples; None after its start.
        pairs_waiting: partitions for which it found no content pair although they have new records.
        pairs_wait_seconds: for how long the oldest of them has waited.
    """

    interval_seconds: float
    every_seconds: float | None
    pairs_waiting: int
    pairs_wait_seconds: float

    @classmethod
    def of(cls, details: Mapping[str, Any]) -> RecorderPace | None:
        """Return the pace that a sample states; None if it states none, or values that are no numbers."""
        stated = {field.name: details.get(field.name) for field in fields(cls)}
        numbers = {name for name, value in stated.items() if isinstance(value, int | float)}
        return cls(**stated) if numbers | {"every_seconds"} == stated.keys() else None  # type: ignore[arg-type]


def pace_findings(pace: RecorderPace | None) -> Iterator[ReadinessFinding]:
    """Yield a warning if the flight recorder falls behind: by its samples, or by its search for content pairs.

    Args:
        pace: None if there is no sample, or one of an older version, which does not state it.
    """
    if pace is None:
        return
    interval, every = pace.interval_seconds, pace.every_seconds
    if every is not None and every > interval:
        text = f"the flight recorder takes a sample every {_seconds(every, interval)}"
        yield ReadinessFinding("recorder_behind", Gravity.WARNING, "samples", text)
    if pace.pairs_wait_seconds > recorder_limit(interval):
        wait = _seconds(pace.pairs_wait_seconds, recorder_limit(interval))
        text = f"{pace.pairs_waiting:,} partitions wait for a content pair of the recorder, the oldest for {wait}"
        yield ReadinessFinding("recorder_behind", Gravity.WARNING, "content pairs", text)


def certificate_findings(ends: Mapping[str, float], now: float, days: float) -> Iterator[ReadinessFinding]:
    """Yield a finding for each certificate that ends soon or has ended.

    Args:
        ends: what the certificate is for -> its end, in seconds since 1970.
        days: least time that it must still be valid.
    """
    for name, end in sorted(ends.items()):
        if end <= now:
            yield ReadinessFinding("certificate_ends", Gravity.FAILED, name, f"the certificate of {name} has ended")
        elif end - now < days * 86_400:
            left = (end - now) / 86_400
            yield ReadinessFinding(
                "certificate_ends", Gravity.WARNING, name, f"the certificate of {name} ends in {left:.1f} days"
            )


def _failed(check: str, text: str) -> ReadinessFinding:
    return ReadinessFinding(check, Gravity.FAILED, "", text)


def _seconds(seen: float, limit: float) -> str:
    return f"{format_duration(round(seen, 1))} (at most {format_duration(limit)})"


def option_findings(option: Mapping[str, Any]) -> Iterator[ReadinessFinding]:
    """Yield a warning for each way in which what runs contradicts the offset option of the flow.

    Args:
        option: as of `view_option`; {} if the flow was not observed.
    """
    for text in option.get("differs", ()):
        yield ReadinessFinding(
            "offset_option_differs", Gravity.WARNING, option["option"], f"{option['option']}: {text}"
        )


def difference_findings(differences: Sequence[str]) -> Iterator[ReadinessFinding]:
    """Yield a warning if source and target differ for clients; `differences`: each as a sentence."""
    if differences:
        text = f"{count_of(len(differences), 'difference')} between both clusters: {first_few(differences, 3, ' ')}"
        yield ReadinessFinding("sites_differ", Gravity.WARNING, "", text)
