"""Read the flight recorder's samples of a flow; with public keys in the topology, only what the recorder signed."""

from __future__ import annotations

from dataclasses import replace

from kafka_dr.actions.old_source.lost_source_fence import is_source_lost
from kafka_dr.config.topology import Recorder
from kafka_dr.domain.sample_chain import ClusterIds, missing_newest, parse_note
from kafka_dr.errors import SystemUnavailable
from kafka_dr.hooks.archive import Archive
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.procedure.run import Run
from kafka_dr.recorder.history import Recorded, last_known
from kafka_dr.recorder.journal_notes import name_in_journal
from kafka_dr.recorder.sample_proof import SampleProof
from kafka_dr.recorder.signed_samples import SignedSamples

_ID_SECONDS = 5.0


def from_samples(procedure: Run, recorder: Recorder, missing: list[str]) -> Recorded:
    """Return the samples of the procedure's flow.

    Args:
        missing: list to which is added what does not count, and which samples are missing, each with the reason.

    Raises:
        ArchiveUnavailable: the archive cannot be read, or its file system is unknown.
    """
    options = procedure.systems.connections.archive_options(recorder.connection) if recorder.connection else {}
    flow = procedure.flow
    archive = Archive(recorder.archive, f"{flow.source}-to-{flow.target}", options)
    if not recorder.public_keys:
        return last_known(archive)
    name = f"{flow.source}->{flow.target}"
    # Read before the archive: the recorder notes a sample after it has stored it.
    noted = noted_sample(procedure, name, missing)
    samples = SignedSamples(archive, SampleProof(name, recorder.public_keys, known_ids(procedure)))
    recorded = last_known(samples)
    lacking = missing_newest(noted, samples.chain.newest)
    missing.extend([*samples.chain.problems(), *([lacking] if lacking else [])])
    return replace(recorded, signed=True, newest_missing=lacking is not None)


def noted_sample(procedure: Run, flow: str, missing: list[str]) -> tuple[int, str] | None:
    """Return number and digest of the newest sample that the journal notes; None if it notes none.

    Args:
        flow: `source->target`.
        missing: list to which is added that, and why, removed samples cannot be noticed.
    """
    try:
        noted = parse_note(procedure.journal.last_detail(name_in_journal(flow)))
        why = "it has no note"
    except SystemUnavailable as error:
        noted, why = None, str(error)
    if noted is None:
        missing.append(f"the journal does not say which sample of the recorder is the newest: {why}")
    return noted


def known_ids(procedure: Run) -> ClusterIds:
    """Return the ids that source and target tell now; None for one that does not answer. A lost source is not asked."""
    source = None if is_source_lost(procedure) else _id_of(procedure.systems.source)
    return source, _id_of(procedure.systems.target)


def _id_of(cluster: KafkaCluster) -> str | None:
    try:
        return cluster.cluster_id(timeout=_ID_SECONDS)
    except SystemUnavailable:
        return None
