"""Check whether a flow could be failed over now, without changing anything; write the flow's readiness document.

Invariants
1. Nothing is written but the document: no lease, no journal entry, no record, no ACL entry. So applications' own logins
   log in to the target, and do nothing else there.
2. What cannot be read is a finding; the other checks run nevertheless.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, replace
from typing import Any, TypeVar

from kafka_dr.actions.access.site_differences import find_differences
from kafka_dr.actions.access.trials import log_in_applications
from kafka_dr.actions.readiness.document import document_path, read_document
from kafka_dr.actions.readiness.fingerprint import read_fingerprint
from kafka_dr.actions.readiness.lag import measure_lag
from kafka_dr.actions.readiness.observe import caught_up_positions, observed_at_rest
from kafka_dr.actions.readiness.outlook import last_run_of, outlook_of
from kafka_dr.actions.readiness.signs import (
    certificate_ends,
    checkpoint_at,
    heartbeat_at,
    offset_sync_at,
    recorder_pace,
    sample_at,
    warm_machine_proof,
    watcher_at,
)
from kafka_dr.actions.readiness.topic_ids import known_topic_ids
from kafka_dr.actions.scope.flow_scope import flows_of_move
from kafka_dr.actions.scope.offset_option import option_of
from kafka_dr.concurrently import run_concurrently
from kafka_dr.config.topology import Flow
from kafka_dr.domain.access.all_differences import brief_differences
from kafka_dr.domain.access.differences import Difference
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.drills import drill_findings
from kafka_dr.domain.readiness.lag import FlowLag, missing_copies
from kafka_dr.domain.readiness.movements import moved_on
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.domain.readiness.readiness import NOT_YET_THERE, find_blockers
from kafka_dr.domain.readiness.report import Checked, Outlook, document_of, movements_of
from kafka_dr.domain.readiness.signs import (
    RecorderPace,
    certificate_findings,
    difference_findings,
    growth_findings,
    heartbeat_findings,
    lag_findings,
    option_findings,
    pace_findings,
    quiet_findings,
    recorder_findings,
    topics_awaited,
    warm_machine_findings,
    watcher_findings,
)
from kafka_dr.domain.readiness.state import Figure, Gravity, ReadinessFinding, findings_of, unknown_figures
from kafka_dr.errors import SwitchbackError, SystemUnavailable
from kafka_dr.hooks.private_files import private_folder
from kafka_dr.hooks.whole_file import write_whole
from kafka_dr.procedure.entries import DrillJudged, facts_in
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

T = TypeVar("T")
#: Default of MirrorMaker 2's refresh.topics.interval.seconds, and how long it may take to create topics after that.
_REFRESH_SECONDS, _CREATION_SECONDS = 600.0, 60.0
#: A check that could not read something is made again, because a broker may restart, or a topic have been deleted
#: between two readings: at most so many checks, so many seconds after each other, none so many seconds after the first.
_MOST_CHECKS, _PAUSE_SECONDS, _AGAIN_SECONDS = 4, 5.0, 60.0
#: A figure that was true longer ago than this, in seconds, counts as stale.
_OLDEST_SECONDS = 300.0


def check_flow(procedure: Run) -> dict[str, Any]:
    """Check the flow of a run, write its readiness document, and return the document.

    Raises:
        JournalUnavailable: the journal, whose clock and signs of life count, does not answer.
        OSError: the document could not be written.
    """
    path = document_path(procedure.topology.evidence, procedure.request.source, procedure.request.target)
    before = read_document(path, procedure.artifacts.files)
    began = time.monotonic()
    checked = FlowCheck(procedure, before).run()
    for _ in range(_MOST_CHECKS - 1):
        unread = any(finding.id == "cannot_read" for finding in checked.findings)
        if not unread or time.monotonic() - began > _AGAIN_SECONDS:
            break
        time.sleep(_PAUSE_SECONDS)
        checked = FlowCheck(procedure, before).run()
    document = document_of(checked, before)
    private_folder(path.parent)
    write_whole(path, json.dumps(document, indent=1, allow_nan=False), 0o600)
    procedure.artifacts.files.put_if_possible(path)
    return document


class FlowCheck:
    """One check of one flow: collects findings, ages and movements."""

    def __init__(self, procedure: Run, before: Mapping[str, Any] | None) -> None:
        """Prepare the check; `before`: the document of the check before, None if there is none."""
        self._procedure = procedure
        self._limits = procedure.flow.readiness
        self._now = self._began = procedure.journal.now()
        self._findings: list[ReadinessFinding] = []
        self._figures: list[Figure] = []
        self._ages: dict[str, float | None] = {}
        self._certificates: dict[str, float] = {}
        self._pace: RecorderPace | None = None
        self._differences: list[Difference] = []
        self._option: dict[str, Any] = {}
        # Of what this check cannot read, the next one needs what the check before has read.
        self._movements = movements_of(before)
        self._awaited: dict[str, float] = (before or {}).get("awaited", {})

    @property
    def _seconds_now(self) -> float:
        return self._now.timestamp()

    def _add_figure(self, name: str, value: float | None, why: str) -> None:
        """Keep a figure for the verdict: it was true when the check began, or later."""
        self._figures.append(Figure(name, value, self._began.timestamp(), why))

    def run(self) -> Checked:
        """Return what the check found."""
        began = time.monotonic()
        held, at_rest, lag = self._holder(), False, None
        observation = None if held else self._try("observation", self._observe)
        if held:
            outlook = self._left_alone("pair_held", held)
        elif observation is not None and waits_for_its_turn(self._procedure.flow, observation):
            at_rest = True
            outlook = self._left_alone("flow_at_rest", "the flow is stopped, and the opposite flow runs")
        else:
            lag = self._judge(observation)
            outlook = outlook_of(self._procedure, lag)
        unread = any(finding.id == "cannot_read" for finding in self._findings)
        return replace(
            self._checked(lag, outlook),
            at_rest=at_rest,
            complete=not (held or at_rest or unread),
            took_seconds=time.monotonic() - began,
        )

    def _holder(self) -> str:
        """Return which procedure holds the pair of clusters, as text; "" if none does."""
        lease = self._procedure.journal.lease(self._procedure.pair)
        return "" if lease is None or lease.released_at is not None else f"{lease.holder} holds the pair of clusters"

    def _observe(self) -> Observation:
        return observed_at_rest(self._procedure, known_topic_ids(self._procedure))

    def _left_alone(self, check: str, why: str) -> Outlook:
        self._findings.append(ReadinessFinding(check, Gravity.FAILED, "", why))
        return Outlook(unknown=dict.fromkeys(("certain", "possible", "rereads", "seconds"), why))

    def _checked(self, lag: FlowLag | None, outlook: Outlook) -> Checked:
        request, ended_at = self._procedure.request, self._procedure.journal.now()
        figures = unknown_figures(self._figures, ended_at.timestamp(), _OLDEST_SECONDS)
        return Checked(
            source=request.source,
            target=request.target,
            at=ended_at,
            findings=[*self._findings, *figures],
            outlook=outlook,
            lag=None if lag is None else lag.as_dict(),
            ages=self._ages,
            certificates=self._certificates,
            last_run=last_run_of(self._procedure),
            drill=newest_drill(self._procedure),
            drill_days=self._procedure.flow.objectives.drill_days,
            retest_days=self._procedure.flow.objectives.retest_days,
            movements=self._movements,
            differences=brief_differences(self._differences),
            flows=flows_of_move(self._procedure, lost=True),
            offset_option=self._option,
            awaited=self._awaited,
            recorder=None if self._pace is None else asdict(self._pace),
        )

    def _judge(self, observation: Observation | None) -> FlowLag | None:
        """Run all checks; return the lag, None if the logs could not be compared."""
        procedure, limits = self._procedure, self._limits
        with run_concurrently() as start:
            signs = {
                name: start(self._read_sign, read)
                for name, read in (
                    ("heartbeat", heartbeat_at),
                    ("checkpoint", checkpoint_at),
                    ("offset_sync", offset_sync_at),
                    ("sample", sample_at),
                    ("recorder", recorder_pace),
                    ("watcher", watcher_at),
                    ("certificates", certificate_ends),
                )
            }
            lagging = None if observation is None else start(measure_lag, procedure, observation)
            fingerprint = None if observation is None else start(read_fingerprint, procedure, observation)
            logins = start(log_in_applications, procedure)
        self._now = procedure.journal.now()
        self._judge_signs(signs)
        self._certificates, _ = self._answer("certificates", signs["certificates"]) or ({}, None)
        self._findings += certificate_findings(self._certificates, self._seconds_now, limits.certificate_days)
        self._judge_installation()
        lag: FlowLag | None = self._answer("lag", lagging)
        self._judge_lag(lag)
        trials = self._answer("applications", logins) or ()
        if observation is not None:
            observation = replace(observation, trials=trials)
            self._judge_blockers(observation)
            self._differences = find_differences(procedure, observation)
            self._findings += difference_findings([difference.text for difference in self._differences])
            self._option = option_of(procedure, observation.flow)
            self._findings += option_findings(self._option)
            self._judge_copies(observation)
            self._judge_movements(observation, signs)
        today, days = self._answer("fingerprint", fingerprint), procedure.flow.objectives.drill_days
        self._findings += drill_findings(newest_drill(procedure), today, days, self._now)
        if warm := limits.warm_machine:
            proof = warm_machine_proof(procedure, warm.machine)
            self._findings += warm_machine_findings(warm.machine, proof, self._seconds_now, warm.days)
        return lag

    def _read_sign(self, read: Callable[[Run], T]) -> tuple[T, float]:
        """Return what a sign says, and when it was read, in seconds since 1970.

        Another system may keep the check waiting: a sign is as old as it was when it was read.
        """
        return read(self._procedure), self._procedure.journal.now().timestamp()

    def _judge_signs(self, signs: Mapping[str, Future[Any]]) -> None:
        """Judge heartbeats, recorder and watcher, by when each last showed life."""
        for name in ("heartbeat", "checkpoint", "offset_sync", "sample", "watcher"):
            at, read_at = self._answer(name, signs[name]) or (None, 0.0)
            self._ages[name] = None if at is None else max(0.0, read_at - at)
        flow, recorder = self._procedure.flow, self._procedure.topology.recorder
        self._findings += watcher_findings(self._ages["watcher"])
        self._findings += heartbeat_findings(self._ages["heartbeat"], self._limits.replication_latency_seconds)
        if flow.connectors.heartbeat is not None:
            why = "the target has no mirrored heartbeat of this flow"
            self._add_figure("heartbeat", self._ages["heartbeat"], why)
        if recorder is not None:
            self._findings += recorder_findings(self._ages["sample"], recorder.interval_seconds)
            self._pace, _ = self._answer("recorder", signs["recorder"]) or (None, 0.0)
            self._findings += pace_findings(self._pace)
        else:
            self._findings.append(
                ReadinessFinding("recorder_missing", Gravity.WARNING, "", "the topology names no recorder")
            )

    def _judge_installation(self) -> None:
        """Judge what else the first steps of a procedure refuse: modes of files, and the connection of Spark."""
        procedure = self._procedure
        for name, check in (
            ("open_files", procedure.refuse_open_files),
            ("spark", lambda: procedure.systems.connections.check_spark(procedure.topology.spark.connection)),
        ):
            try:
                check()
            except SystemUnavailable as error:
                self._findings.append(ReadinessFinding(name, Gravity.UNKNOWN, "", str(error)))
            except SwitchbackError as error:
                self._findings.append(ReadinessFinding(name, Gravity.FAILED, "", str(error)))

    def _judge_lag(self, lag: FlowLag | None) -> None:
        self._add_figure("lag", None if lag is None else lag.records, "the logs of both clusters could not be compared")
        if lag is not None:
            self._add_figure("record_age", lag.seconds, "no record of a lagging partition could be read")
            most = self._limits
            self._findings += lag_findings(lag, most.record_age_seconds, most.lag_records, most.lag_bytes)

    def _judge_blockers(self, observation: Observation) -> None:
        """Run the checks of a procedure; a topic that MirrorMaker 2 may not have looked for yet is only a warning."""
        blockers, now = find_blockers(observation), self._seconds_now
        missing = {topic for topic, remote in observation.scope.items() if remote not in observation.target.topics}
        copied = {tp.topic for tp, last in observation.flow.replicated.items() if last is not None}
        self._awaited = topics_awaited(missing, copied, self._awaited, now)
        refresh = float(observation.flow.source_config.get("refresh.topics.interval.seconds", _REFRESH_SECONDS))
        young = {topic for topic, since in self._awaited.items() if now - since <= refresh + _CREATION_SECONDS}
        if missing and missing == young:
            blockers = [blocker for blocker in blockers if blocker.reason != NOT_YET_THERE]
            text = f"MirrorMaker 2 has not created these new topics yet: {first_few(sorted(young))}"
            self._findings.append(ReadinessFinding("topics_new", Gravity.WARNING, "", text))
        self._findings += findings_of(blockers)

    def _judge_copies(self, observation: Observation) -> None:
        ends = observation.last
        if missing := missing_copies(ends.source_ends, ends.target_ends, observation.flow.replicated):
            text = f"the target's logs are empty, although Connect counts records as copied: {first_few(missing)}"
            self._findings.append(ReadinessFinding("copies_missing", Gravity.FAILED, "", text))

    def _judge_movements(self, observation: Observation, signs: Mapping[str, Future[Any]]) -> None:
        """Compare the sums of log ends and positions with those of the check before."""
        first, last = observation.first, observation.last
        read = {
            "source_ends": _sums_by_topic(last.source_ends),
            "target_ends": _sums_by_topic(last.target_ends),
            "positions": caught_up_positions(observation.positions, first, last),
        }
        before = {name: self._movements.get(name) for name in read}
        self._movements = {name: moved_on(before[name], sums, self._seconds_now) for name, sums in read.items()}
        source, target = before["source_ends"], before["target_ends"]
        if source and target and self._seconds_now - source.at >= self._limits.record_age_seconds:
            now = {name: movement.sum for name, movement in self._movements.items()}
            grown = ((source.sum, now["source_ends"]), (target.sum, now["target_ends"]))
            self._findings += growth_findings(*grown, self._limits.copied_share)
        for name, causes in (("checkpoint", ("source_ends", "positions")), ("offset_sync", ("source_ends",))):
            if signs[name].exception() is None:
                moved = [before[cause] for cause in causes]
                limit, (newest, read_at) = self._limits.checkpoint_latency_seconds, signs[name].result()
                self._findings += quiet_findings(f"{name}s", newest, moved, read_at, limit)

    def _try(self, about: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except SwitchbackError as error:
            self._findings.append(ReadinessFinding("cannot_read", Gravity.UNKNOWN, about, f"{about}: {error}"))
            return None

    def _answer(self, about: str, answer: Future[T] | None) -> T | None:
        return None if answer is None else self._try(about, answer.result)


def _sums_by_topic(ends: Mapping[TopicPartition, int]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for tp, end in ends.items():
        sums[tp.topic] = sums.get(tp.topic, 0) + end
    return sums


def waits_for_its_turn(flow: Flow, observation: Observation) -> bool:
    """Whether a flow is at rest, and not one that always runs: its stop is then a fault."""
    return flow.runs == "in_turn" and is_at_rest(observation)


def is_at_rest(observation: Observation) -> bool:
    """Whether the flow is stopped as a whole, and the opposite flow runs: no failover in this direction is meant."""
    reverse = observation.reverse
    return (
        bool(observation.flow.source_connectors)
        and all(connector.stopped for connector in observation.flow.source_connectors)
        and reverse is not None
        and bool(reverse.source_connectors)
        and all(connector.runs for connector in reverse.source_connectors)
    )


def is_stopped(procedure: Run) -> bool:
    """Whether a flow mirrors nothing on purpose, by what Connect states now: a flow at rest, or in maintenance.

    Each of its source connectors is STOPPED or PAUSED, or does not exist; in dedicated mode: no process runs.

    Raises:
        SystemUnavailable: the state of a connector cannot be read.
    """
    connect = procedure.mirror_maker(procedure.flow)
    sources = set(procedure.flow.connectors.source) & set(connect.existing())
    return all(connect.status(name).state in ("STOPPED", "PAUSED") for name in sources)


def newest_drill(procedure: Run) -> DrillJudged | None:
    """Return the newest drill of a run's flow that has ended; None without a drill."""
    request = procedure.request
    judged = facts_in(procedure.journal.entries(step=Step.CLOSE_PROCEDURE, kind=Entry.NOTE), DrillJudged)
    return next((d for d in reversed(judged) if (d.source, d.target) == (request.source, request.target)), None)
