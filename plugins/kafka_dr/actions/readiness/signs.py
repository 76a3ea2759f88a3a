"""Read a flow's signs of life: heartbeats, internal topics, recorder, watcher; and certificates' ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from kafka_dr.actions.old_source.source_views import newest_heartbeats
from kafka_dr.actions.scope.internal_topics import syncs_place
from kafka_dr.concurrently import run_concurrently
from kafka_dr.config.storage import Recorder
from kafka_dr.config.topology import Flow
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.readiness.signs import RecorderPace, WarmMachineProof
from kafka_dr.domain.recorder_rows import sample_details
from kafka_dr.hooks.archive import Archive
from kafka_dr.hooks.brokers.record import digest_of
from kafka_dr.hooks.certificates import end_of_pem, end_of_server, read_pem
from kafka_dr.procedure.entries import ProcedureClosed, ProcedureOpened, facts_of
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.systems import Systems
from kafka_dr.procedures import COMMAND_RUN
from kafka_dr.recorder.journal_notes import name_in_journal
from kafka_dr.recorder.loop import SAMPLES
from kafka_dr.vocabulary import Entry, Outcome, Step

_SECONDS = 10.0


def heartbeat_at(procedure: Run) -> float | None:
    """Return when the newest mirrored heartbeat was written on the source, in seconds since 1970; None without any."""
    newest = max(newest_heartbeats(procedure, _SECONDS), default=None)
    return None if newest is None else newest / 1000


def checkpoint_at(procedure: Run) -> float | None:
    """Return when the newest checkpoint was written, in seconds since 1970; None without any."""
    return _newest_record(procedure, procedure.flow.target, procedure.naming.checkpoints_topic(procedure.flow.source))


def offset_sync_at(procedure: Run) -> float | None:
    """Return when the newest offset sync was written, in seconds since 1970; None without any."""
    return _newest_record(procedure, *syncs_place(procedure, procedure.flow))


def watcher_at(procedure: Run) -> float | None:
    """Return when the watcher last showed life, in seconds since 1970; None: it never did."""
    return _seconds(procedure.journal.last_sign(Step.WATCH_OLD_SOURCE))


def sample_at(procedure: Run) -> float | None:
    """Return when the flight recorder stored its newest sample that counts, in seconds since 1970; None without any.

    With public keys in the topology only samples count that the recorder signed, and noted in the journal.

    Raises:
        ArchiveUnavailable: the archive cannot be read.
    """
    recorder, flow = procedure.topology.recorder, procedure.flow
    if recorder is None:
        return None
    if recorder.public_keys:
        return _seconds(procedure.journal.last_sign(name_in_journal(f"{flow.source}->{flow.target}")))
    return _seconds(_archive(procedure, recorder).newest(SAMPLES))


def recorder_pace(procedure: Run) -> RecorderPace | None:
    """Return how the flight recorder keeps up, by its newest sample; None without one that states it.

    Raises:
        ArchiveUnavailable: the archive cannot be read.
    """
    recorder = procedure.topology.recorder
    rows = None if recorder is None else _archive(procedure, recorder).newest_rows(SAMPLES, ["at", "details"])
    if rows is None:
        return None
    newest = max(rows.drop_null().to_pylist(), key=lambda row: row["at"], default={"details": "{}"})
    return RecorderPace.of(sample_details(newest["details"]))


def warm_machine_proof(procedure: Run, machine: str) -> WarmMachineProof | None:
    """Return the newest procedure of a run's flow that the command `run` completed on a machine; None without one."""
    journal, flow = procedure.journal, (procedure.request.source, procedure.request.target)
    opened = {
        entry.procedure_id
        for entry, fact in facts_of(journal.entries(step=Step.OPEN_PROCEDURE, kind=Entry.OPENED), ProcedureOpened)
        if fact.run_id.startswith(COMMAND_RUN) and fact.opened_on == machine and (fact.source, fact.target) == flow
    }
    closed = facts_of(journal.entries(step=Step.CLOSE_PROCEDURE, kind=Entry.CLOSED), ProcedureClosed)
    proofs = [
        WarmMachineProof(entry.procedure_id, entry.at.timestamp())
        for entry, fact in closed
        if entry.procedure_id in opened and fact.outcome == Outcome.COMPLETED
    ]
    return max(proofs, key=lambda proof: proof.ended_at, default=None)


def _archive(procedure: Run, recorder: Recorder) -> Archive:
    flow, connections = procedure.flow, procedure.systems.connections
    options = connections.archive_options(recorder.connection) if recorder.connection else {}
    return Archive(recorder.archive, f"{flow.source}-to-{flow.target}", options)


def certificate_ends(procedure: Run) -> dict[str, float]:
    """Return the ends of the certificates of a run's flow, as `certificate_ends_of` does."""
    return certificate_ends_of(procedure.systems, procedure.flow)


def certificate_ends_of(systems: Systems, flow: Flow) -> dict[str, float]:
    """Return what each certificate is for -> its end, in seconds since 1970.

    Certificates are those of the clients, those of CAs, unless in a file of several, and those that brokers and the
    workers of Connect show.

    Raises:
        BadInput: a connection names a certificate that cannot be read.
    """
    connections, topology = systems.connections, systems.topology
    ends: dict[str, float] = {}
    addresses: list[tuple[str, str]] = []
    for alias in (flow.source, flow.target):
        settings = connections.kafka(topology.cluster(alias).connection)
        ends |= {name: end_of_pem(pem, name) for name, pem in _pems_of(alias, settings)}
        if "SSL" in str(settings.get("security.protocol", "")).upper():
            addresses += [
                (f"{alias} broker {at.strip()}", at.strip()) for at in settings["bootstrap.servers"].split(",")
            ]
    for worker in flow.workers:
        if cert := connections.tls(worker).cert:
            ends[f"{worker} client"] = end_of_pem(read_pem(cert, worker), worker)
        urls = [urlsplit(url) for url in connections.login(worker)[0].split(",")]
        places = [url.netloc if url.port else f"{url.netloc}:443" for url in urls if url.scheme == "https"]
        addresses += [(f"{worker} {place}", place) for place in places]
    with run_concurrently() as start:
        shown = [(name, start(end_of_server, address)) for name, address in addresses]
    return ends | {name: end for name, answer in shown if (end := answer.result()) is not None}


def ca_of(procedure: Run, alias: str) -> str:
    """Return the CA certificates with which a cluster's brokers are verified, as PEM text; "" without any."""
    settings = procedure.systems.connections.kafka(procedure.topology.cluster(alias).connection)
    return "".join(pem.decode("utf-8", "replace") for name, pem in _pems_of(alias, settings) if name.endswith(" CA"))


def _pems_of(alias: str, settings: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    for kind, words in (("ca", "CA"), ("certificate", "client")):
        name = f"{alias} {words}"
        if path := settings.get(f"ssl.{kind}.location"):
            yield name, read_pem(path, name)
        elif pem := settings.get(f"ssl.{kind}.pem"):
            yield name, str(pem).encode()


def _newest_record(procedure: Run, alias: str, topic: str) -> float | None:
    """Return the time of a topic's newest record, in seconds since 1970; None if the topic is missing or empty."""
    request = procedure.request
    cluster = procedure.systems.source if alias == request.source else procedure.systems.target
    found = cluster.topics([topic], timeout=_SECONDS)
    partitions = [TopicPartition(topic, partition) for partition in found[topic].partitions] if topic in found else []
    tails = procedure.systems.reader(alias).last_records(partitions, timeout=_SECONDS, take=digest_of)
    times = [record.timestamp for tail in tails.values() for record in tail.records if record.timestamp is not None]
    return max(times) / 1000 if times else None


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.astimezone(UTC).timestamp()
