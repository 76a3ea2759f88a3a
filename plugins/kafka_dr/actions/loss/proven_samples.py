"""Read the flight recorder's samples of a flow; with public keys in the topology, only what the recorder signed."""

from __future__ import annotations

from dataclasses import replace

from kafka_dr.config.storage import Recorder
from kafka_dr.domain.sample_chain import ClusterIds, missing_newest, parse_note
from kafka_dr.errors import SystemUnavailable
from kafka_dr.hooks.archive import Archive
from kafka_dr.procedure.run import Run
from kafka_dr.recorder.history import Recorded, last_known
from kafka_dr.recorder.journal_notes import name_in_journal
from kafka_dr.recorder.sample_proof import SampleProof
from kafka_dr.recorder.signed_samples import SignedSamples


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
    """Return the cluster ids of source and target that the run is bound to; None for an unknown id."""
    opened, request = procedure.progress.opened, procedure.request
    clusters = opened.binding.clusters if opened and opened.binding else {}
    source, target = (clusters[alias].id if alias in clusters else None for alias in (request.source, request.target))
    return source, target
