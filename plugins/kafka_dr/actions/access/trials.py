"""Try applications' own logins on the target: log in, write a record, read it, commit a position of a group.

Topic and group begin with the application's own prefix, so the rights that are tried are those that the application has
already: no ACL entry is changed. Both exist for the time of the check alone.

Invariants
1. Topics and groups are named in the journal before they are made; every check removes those of earlier checks, whose
   process was killed.
2. What may pass is tried again; what was not tried is never called proven.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from kafka_dr.actions.fencing.hook_fence import hook_fences_target
from kafka_dr.concurrently import run_concurrently
from kafka_dr.config.applications import ApplicationSettings
from kafka_dr.domain.access.trial import AccessTrial, Act
from kafka_dr.errors import BadInput, KafkaUnavailable, ReadBackFailed, SystemUnavailable
from kafka_dr.hooks.application_client import ApplicationClient
from kafka_dr.hooks.brokers.group_requests import OK
from kafka_dr.hooks.brokers.record_writer import WriteAccepted, WriteRefused
from kafka_dr.procedure.authority import acting_under, record_fact
from kafka_dr.procedure.entries import AccessToTry, AccessTried, facts_in
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

#: How long an act is tried again after errors that may pass, and the pause between two tries; in seconds.
_SECONDS, _PAUSE = 20.0, 0.5
_SETTINGS = {"retention.ms": "3600000", "cleanup.policy": "delete", "min.insync.replicas": "1"}


def log_in_applications(procedure: Run) -> tuple[AccessTrial, ...]:
    """Log in to the target as each application, and change nothing there; return what was shown."""
    with run_concurrently() as start:
        planned = [] if procedure.in_drill else _planned(procedure, False)
        logins = [start(_Trial(procedure, replace(trial, topic="", group="")).run) for trial in planned]
    return tuple(login.result() for login in logins)


def try_applications(procedure: Run, step: str) -> tuple[tuple[AccessTrial, ...], list[str]]:
    """Try each application's login on the target as a whole.

    Returns:
        What was shown, and which topics and groups could not be removed afterwards, as text.

    Raises:
        LeaseLost, Superseded: a newer process acts, which removes topics and groups.
    """
    trials = [] if procedure.in_drill else _planned(procedure, True)
    places = _Places(procedure, step, trials)
    places.prepare()
    try:
        with run_concurrently() as start:
            running = [start(_Trial(procedure, trial).run) for trial in trials]
        return tuple(trial.result() for trial in running), places.remove()
    except BaseException:
        with suppress(SystemUnavailable, ReadBackFailed):
            places.remove()
        raise


def remove_left_access(procedure: Run, step: str) -> None:
    """Remove topics and groups of this run's trials whose process was killed; errors are only recorded."""
    intents = procedure.progress.facts(AccessToTry)
    if len(intents) > len([fact for fact in procedure.progress.facts(AccessTried) if not fact.access_left]):
        _Places(procedure, step).remove()


def _planned(procedure: Run, writes: bool) -> list[AccessTrial]:
    """Return the trials to make; one with `untried` is made in part, or not at all if it names no connection."""
    fenced = bool(procedure.topology.applications) and hook_fences_target(procedure)
    return [_trial_of(procedure, application, fenced, writes) for application in procedure.topology.applications]


def _trial_of(procedure: Run, application: ApplicationSettings, fenced: bool, writes: bool) -> AccessTrial:
    target = procedure.request.target
    connection = application.connections.get(target)
    if connection is None:
        why = f"the topology names no connection of it for {target}"
        return AccessTrial(application.name, target, "", untried=why)
    if fenced:
        return AccessTrial(application.name, target, "", untried=f"the fence hook keeps clients from {target}")
    if application.topic is None or application.group is None:
        why = "the topology states no `prefix` of its topics: only its login was tried"
        return AccessTrial(application.name, target, connection, untried=why)
    if writes and (mirroring := _mirroring(procedure, application.topic)):
        why = f"{mirroring} mirrors the topic {application.topic}: add it to topics.exclude of its source connectors"
        return AccessTrial(application.name, target, connection, untried=why)
    return AccessTrial(application.name, target, connection, topic=application.topic, group=application.group)


def _mirroring(procedure: Run, topic: str) -> str:
    """Return which flow would mirror a topic of the target, as text; "" if none would."""
    flow = procedure.reverse_flow
    if flow is None or not procedure.mirror_maker(flow).topic_filter().selects(topic):
        return ""
    return f"the flow {flow.source}->{flow.target}"


class _Trial:
    """Tries one application's login."""

    def __init__(self, procedure: Run, trial: AccessTrial) -> None:
        self._procedure, self._trial = procedure, trial
        self._value = f"{procedure.id} {procedure.now()}".encode()
        self._offset = 0

    def run(self) -> AccessTrial:
        """Return the trial with what was shown."""
        trial = self._trial
        if not trial.connection:
            return trial
        try:
            client = self._procedure.systems.application(trial.cluster, trial.connection)
        except BadInput as error:
            return self._failed(Act.CONNECT, f"{error.reason}: {error.seen}", error.next_step)
        self._trial = replace(trial, principal=client.principal)
        try:
            return self._act(client)
        finally:
            client.close()

    def _act(self, client: ApplicationClient) -> AccessTrial:
        acts: dict[Act, Callable[[ApplicationClient], tuple[str, bool]]] = {Act.LOG_IN: self._log_in}
        if self._trial.topic:
            acts |= {Act.CONNECT: self._create, Act.WRITE: self._write, Act.READ: self._read, Act.COMMIT: self._commit}
        for act, attempt in acts.items():
            if problem := _repeat(attempt, client):
                return self._failed(act, problem)
            if act is not Act.CONNECT:
                self._trial = replace(self._trial, shown=(*self._trial.shown, act))
        return self._trial

    def _failed(self, act: Act, seen: str, next_step: str = "") -> AccessTrial:
        return replace(self._trial, failed=act, seen=seen, next_step=next_step)

    def _log_in(self, client: ApplicationClient) -> tuple[str, bool]:
        found, expected = client.log_in(), self._procedure.systems.target.cluster_id()
        return ("" if found == expected else f"it leads to the cluster with the id {found}, not {expected}"), False

    def _create(self, _client: ApplicationClient) -> tuple[str, bool]:
        target, topic = self._procedure.systems.target, self._trial.topic
        try:
            with acting_under(self._procedure.authority, lambda: target.delete_topics([topic])):
                target.create_topic(topic, 1, configs=_SETTINGS)
        except (KafkaUnavailable, ReadBackFailed) as error:
            return f"{error.reason}: {error.seen}", getattr(error, "may_pass", False)
        return "", False

    def _write(self, client: ApplicationClient) -> tuple[str, bool]:
        self._procedure.authority.hold()
        answer = client.write(self._trial.topic, self._value)
        if isinstance(answer, WriteAccepted):
            self._offset = answer.offset
            return "", False
        return answer.error, not isinstance(answer, WriteRefused) or answer.may_pass

    def _read(self, client: ApplicationClient) -> tuple[str, bool]:
        found = client.read(self._trial.topic, self._offset)
        return ("" if found == [self._value] else f"the record at offset {self._offset} is another one"), True

    def _commit(self, client: ApplicationClient) -> tuple[str, bool]:
        self._procedure.authority.hold()
        return client.commit(self._trial.group, self._trial.topic, self._offset + 1), False


def _repeat(attempt: Callable[[ApplicationClient], tuple[str, bool]], client: ApplicationClient) -> str:
    """Try an act again while its error may pass; return the last error, "" after a success."""
    ends_at = time.monotonic() + _SECONDS
    while True:
        try:
            problem, may_pass = attempt(client)
        except KafkaUnavailable as error:
            problem, may_pass = error.seen, error.may_pass
        if not (problem and may_pass) or time.monotonic() >= ends_at:
            return problem
        time.sleep(_PAUSE)


class _Places:
    """The topics and groups of trials on the target."""

    def __init__(self, procedure: Run, step: str, trials: Iterable[AccessTrial] = ()) -> None:
        self._procedure, self._step, self._target = procedure, step, procedure.request.target
        self._topics = [trial.topic for trial in trials if trial.topic]
        self._groups = [trial.group for trial in trials if trial.group]

    def prepare(self) -> None:
        """Remove what earlier checks have left, and name in the journal what this one will make."""
        if self._noted()[0]:
            self._remove_noted()
        if self._topics:
            places = AccessToTry(access_cluster=self._target, access_topics=self._topics, access_groups=self._groups)
            record_fact(self._procedure.authority, self._step, places)

    def remove(self) -> list[str]:
        """Remove topics and groups, and record what is left; return that, as text."""
        if not self._noted()[0]:
            return []
        left = self._remove_noted()
        removed = AccessTried(access_removed=self._target, access_left=left)
        record_fact(self._procedure.authority, self._step, removed)
        return left

    def _noted(self) -> tuple[set[str], set[str]]:
        """Return topics and groups that checks of any run have made on the target, by the journal."""
        entries = self._procedure.journal.entries_of_steps((Step.CHECK_READINESS,))
        facts = [fact for fact in facts_in(entries, AccessToTry) if fact.access_cluster == self._target]
        return {t for fact in facts for t in fact.access_topics}, {g for fact in facts for g in fact.access_groups}

    def _remove_noted(self) -> list[str]:
        target, (topics, groups), left = self._procedure.systems.target, self._noted(), list[str]()
        self._procedure.authority.hold()
        try:
            left += [f"group {group}: {word}" for group, word in target.delete_groups(groups).items() if word != OK]
            target.delete_topics(target.topics(topics))
        except (KafkaUnavailable, ReadBackFailed) as error:
            left.append(f"topics {', '.join(sorted(topics))}: {error.reason} ({error.seen})")
        return left
