"""Make a canary drill's topics, records, groups and connectors, and wait until its records are on both clusters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial

from kafka_dr.actions.drill.ledger import DrillLedger
from kafka_dr.config.drill import DrillSettings
from kafka_dr.config.topology import Flow
from kafka_dr.domain.drill.connectors import drill_config
from kafka_dr.domain.drill.records import record_value
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import NotReady, ReadBackFailed
from kafka_dr.hooks.brokers.group_requests import OK
from kafka_dr.hooks.drill.client import DrillProducer
from kafka_dr.hooks.site.routing import ClientRoute
from kafka_dr.procedure.drill_run import GROUPS, IDLE_GROUPS, TOPICS, PrivateInstallation
from kafka_dr.procedure.entries import TryBegun
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.systems import Systems
from kafka_dr.vocabulary import Step

#: A drill's records expire by themselves a day after the drill.
_SETTINGS = {"retention.ms": "86400000", "cleanup.policy": "delete"}
_WRITE_SECONDS, _COPY_SECONDS, _POLL_SECONDS = 120.0, 180.0, 1.0
#: How far the numbers of two tries are apart: more than a drill has records.
_APART = 10_000_000


def prepare_drill(procedure: Run, private: PrivateInstallation, settings: DrillSettings) -> dict[str, dict[str, str]]:
    """Make everything that the passes need; safe to repeat. Return alias -> topic -> id of the topics.

    Raises:
        ReadBackFailed: the records did not reach the target in time.
    """
    systems = private.systems_of(procedure)
    ledger = DrillLedger(private.folder)
    ledger.begin()
    topics = [private.names.topic(name) for name in TOPICS]
    aliases = [private.source] if private.topology.naming.policy == "identity" else [private.source, private.target]
    for alias in aliases:
        for topic in topics:
            systems.cluster(alias).create_topic(topic, settings.partitions, configs=_SETTINGS)
    servers = systems.connections.kafka(private.topology.cluster(private.source).connection)["bootstrap.servers"]
    systems.routing.redirect(ClientRoute(private.source, servers))
    if not ledger.has_numbers_of("preparation"):
        # A try that was killed has left records: those of the next one have other numbers.
        first = (len(procedure.progress.facts(TryBegun, Step.PREPARE_DRILL)) - 1) * _APART
        ledger.put("preparation", write_records(systems, private, topics, range(first, first + settings.records)))
    _commit_idle_groups(systems, private, topics)
    _create_connectors(procedure, systems, private, topics)
    _await_copies(systems, private, topics)
    return {
        alias: {name: info.topic_id for name, info in systems.cluster(alias).topics(private.scope.topics).items()}
        for alias in (private.source, private.target)
    }


def write_records(systems: Systems, private: PrivateInstallation, topics: list[str], numbers: range) -> list[int]:
    """Write numbered records as the drill's client; return the numbers that the source acknowledged.

    Raises:
        NotReady: a record was refused.
    """
    connection = private.topology.cluster(private.source).probe_connection or ""
    producer = DrillProducer(systems.connections.kafka(connection), private.source, private.scope)
    acknowledged, refused = list[int](), set[str]()

    def delivered(number: int, error: object, _: object) -> None:
        acknowledged.append(number) if error is None else refused.add(str(error))

    ends_at = time.monotonic() + _WRITE_SECONDS
    for number in numbers:
        value, topic = record_value(private.names.short, number), topics[number % len(topics)]
        while not producer.write(topic, value, str(number), partial(delivered, number)) and time.monotonic() < ends_at:
            producer.wait(0.1)
    producer.wait(max(1.0, ends_at - time.monotonic()))
    if refused or len(acknowledged) < len(numbers):
        raise NotReady(
            f"The drill's client could not write its records to {private.source}",
            f"{len(acknowledged)} of {len(numbers)} acknowledged; errors: {', '.join(sorted(refused)) or 'none'}",
            f"Give the principal of the Airflow connection {connection} the rights that runbooks/failover_drill.md"
            " lists, on both clusters; then clear prepare_drill.",
        )
    return acknowledged


def _commit_idle_groups(systems: Systems, private: PrivateInstallation, topics: Iterable[str]) -> None:
    """Commit positions of the groups that no client of the drill belongs to, at several distances from the end."""
    source = systems.cluster(private.source)
    info = source.topics(topics)
    partitions = [TopicPartition(topic, partition) for topic in info for partition in info[topic].partitions]
    ends = source.ends(partitions)
    for name, share in IDLE_GROUPS.items():
        group = private.names.group(name)
        answers = source.commit(group, {tp: int(end * share) for tp, end in ends.items()})
        if wrong := {text for text in answers.values() if text != OK}:
            raise ReadBackFailed(
                f"positions of {group} were not committed",
                ", ".join(sorted(wrong)),
                f"If the group is active, a client that is not the drill's is a member: stop this client on"
                f" {private.source}. Otherwise look for the error in the brokers' logs. Then start a new drill.",
            )


def _create_connectors(procedure: Run, systems: Systems, private: PrivateInstallation, topics: list[str]) -> None:
    """Create both flows' connectors: the drilled direction RUNNING, the opposite one STOPPED."""
    groups = [private.names.group(name) for name in GROUPS]
    for flow in private.topology.flows:
        production = procedure.topology.find_flow(flow.source, flow.target)
        if production is None:
            raise NotReady(
                f"No flow replicates {flow.source}->{flow.target}",
                "a canary drill moves its clients there and back, and takes the settings of both flows over",
                "Add the reverse flow to the topology, or start the drill with kind observe.",
            )
        runs = (flow.source, flow.target) == (private.source, private.target)
        pairs = (
            (production.worker, production.connectors.source[0], flow.connectors.source[0]),
            (
                production.connectors.checkpoint.connect or production.worker,
                production.connectors.checkpoint.name,
                flow.connectors.checkpoint.name,
            ),
        )
        for worker, like, name in pairs:
            config = procedure.systems.drill_connectors(worker).read_config(like)
            made = drill_config(config, topics, groups, (flow.source, flow.target))
            systems.drill_connectors(flow.worker).create(name, made, runs)


def _await_copies(systems: Systems, private: PrivateInstallation, topics: Iterable[str]) -> None:
    """Wait until the target's logs are as long as the source's: both hold the drill's records alone."""
    naming = private.topology.names
    source, target = systems.cluster(private.source), systems.cluster(private.target)
    info = source.topics(topics)
    ends = source.ends([TopicPartition(topic, number) for topic in info for number in info[topic].partitions])
    remote = {
        TopicPartition(naming.remote(private.source, tp.topic), tp.partition): end for tp, end in ends.items() if end
    }
    ends_at, seen = time.monotonic() + _COPY_SECONDS, dict[TopicPartition, int]()
    while time.monotonic() < ends_at:
        there = target.topics({tp.topic for tp in remote})
        known = [tp for tp in remote if tp.topic in there and tp.partition in there[tp.topic].partitions]
        seen = target.ends(known)
        if len(seen) == len(remote) and all(seen[tp] >= end for tp, end in remote.items()):
            return
        time.sleep(_POLL_SECONDS)
    raise ReadBackFailed(
        f"the drill's records did not reach {private.target} within {_COPY_SECONDS:g} s",
        f"{sum(seen.values())} of {sum(remote.values())}; connectors: {_states(systems, private.topology.flows)}",
        "Look for the error of the drill's connectors in the log of the Connect worker that `drill.connect` names; the"
        " drill removes what it has made.",
    )


def _states(systems: Systems, flows: Iterable[Flow]) -> str:
    states: Mapping[str, str] = {
        name: "; ".join([str(status), *status.traces.values()])
        for flow in flows
        for name in flow.connectors.names
        for status in [systems.connect_worker(flow.worker).status(name)]
    }
    return "; ".join(states.values())
