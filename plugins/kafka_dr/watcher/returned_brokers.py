"""Probes brokers that were not live when the source was fenced, once they live again."""

from __future__ import annotations

import time

from kafka_dr.actions.fencing.acl_fence import probe_answers, refused_by_rights
from kafka_dr.domain.plain_text import first_few
from kafka_dr.hooks.brokers.record_writer import WriteAccepted
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import ProducersFenced, ReturnedBrokersProbed, entries_about, facts_in
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step
from kafka_dr.watcher.authority import STEP
from kafka_dr.watcher.duties import ASK_SECONDS

#: Interval of looks whether such brokers live, in seconds.
_SECONDS = 10.0


class ReturnedBrokers:
    """Probes each broker that was not live at the fence, until it has refused the probe's write once."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._proven: set[str] = set()

    def probe(self, procedure: Run) -> str:
        """Probe the brokers that have returned since the last look; return what is open, as text, or "".

        Without a probe, or an authorizer on the source, no broker is probed.
        """
        if procedure.id in self._proven or time.monotonic() < self._due.get(procedure.id, 0.0):
            return ""
        self._due[procedure.id] = time.monotonic() + _SECONDS
        earlier = _earlier_probes(procedure)
        fenced = procedure.progress.done(ProducersFenced)
        dead = set((fenced and fenced.brokers_dead) or ()).difference(*(fact.returned_refusing for fact in earlier))
        if not dead:
            self._proven.add(procedure.id)
            return ""
        live = {broker.id for broker in procedure.systems.source.brokers(timeout=ASK_SECONDS)}
        answers = (probe_answers(procedure) or {}) if dead & live else {}
        refusing = sorted(broker for broker in dead if broker in answers and refused_by_rights(answers[broker]))
        accepting = sorted(broker for broker in dead if isinstance(answers.get(broker), WriteAccepted))
        if refusing or not {*accepting} <= {broker for fact in earlier for broker in fact.returned_accepting}:
            procedure.authority.hold()
            fact = ReturnedBrokersProbed(
                returned_refusing=refusing, returned_accepting=accepting, probed_at=procedure.now()
            )
            record_fact(procedure.authority, STEP, fact)
        if not accepting:
            return ""
        return (
            f"brokers of {procedure.request.source} that were not live when {procedure.id} proved its fence accept the"
            f" probe's write: {first_few(accepting)}. Stop these brokers, and find out in their logs why they do not"
            " have the cluster's ACL entries"
        )


def _earlier_probes(procedure: Run) -> list[ReturnedBrokersProbed]:
    entries = procedure.journal.entries_of_steps([Step.WATCH_OLD_SOURCE])
    return list(facts_in(entries_about(entries, procedure.id), ReturnedBrokersProbed))
