"""The flight recorder of all flows; runs until it is ended. The DAG record_positions starts and watches it.

    python -m kafka_dr.commands.record_positions < SETTINGS

SETTINGS is one line of JSON, on standard input because it holds secrets: `topology` (path), `clusters` (alias ->
librdkafka configuration), `workers` (connection id of a Connect worker -> url, user, password, tls), `archive`
(options of the archive's file system) and `journal` (URL). The command ends when its standard input ends.

If the topology names public keys, samples are signed with the private key in the file that the environment variable
SWITCHBACK_RECORDER_KEY names.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

from kafka_dr.commands.command_line import command_parser
from kafka_dr.config.settings import load_topology
from kafka_dr.config.storage import Recorder
from kafka_dr.config.topology import Flow, Topology
from kafka_dr.errors import BadInput, SwitchbackError
from kafka_dr.hooks.archive import Archive, local_folder
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.hooks.private_files import refuse_open
from kafka_dr.hooks.signing import Signer
from kafka_dr.recorder.clients import Access, FlowBack
from kafka_dr.recorder.journal_notes import JournalNotes
from kafka_dr.recorder.loop import SAMPLES, Recording
from kafka_dr.recorder.mirror_topics import read_so_far
from kafka_dr.recorder.sample_proof import SampleProof
from kafka_dr.recorder.sample_signing import SampleSigning
from kafka_dr.recorder.sampler import Looker
from kafka_dr.recorder.signed_samples import SignedSamples

KEY_VARIABLE = "SWITCHBACK_RECORDER_KEY"
#: Limit of one client's queue of fetched records, in kB: with large records, these queues are most of the memory.
_QUEUED_KBYTES = 16_384


def main(arguments: Sequence[str] = ()) -> int:
    """Run the command; return 0 after a signal or end of input, 1 if a recorder failed, 2 if none was started."""
    command_parser("record_positions", __doc__).parse_args(arguments)
    # A crash in the Kafka client's own code leaves no other trace in the task's log.
    faulthandler.enable()
    ended, failed = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        settings = json.loads(sys.stdin.readline())
        topology = load_topology(settings["topology"])
        recordings = [open_recorder(topology, flow, settings, ended) for flow in topology.flows]
    except (SwitchbackError, ValueError, KeyError) as error:
        print(f"ERROR the recorder cannot begin: {type(error).__name__}: {error}", flush=True)
        return 2
    # Exempt loaded modules from garbage collection, which would take much of the time of a sample without new rows.
    gc.freeze()
    threading.Thread(target=_end_with_parent, args=(ended,), daemon=True).start()
    threads = [threading.Thread(target=_run, args=(recording, ended, failed)) for recording in recordings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1 if failed.is_set() else 0


def _run(recording: Recording, ended: threading.Event, failed: threading.Event) -> None:
    """Run one flow's recorder; if it fails, end all recorders, because Airflow then starts the command again.

    Args:
        ended: set after a failure; ends the recorders of all flows.
        failed: set after a failure, so that the command returns 1.
    """
    try:
        recording.run()
    except Exception:  # noqa: BLE001 (a failed recorder ends all)
        print(
            f"ERROR {recording.name}: its recorder failed, and all recorders end:\n{traceback.format_exc()}",
            flush=True,
        )
        failed.set()
        ended.set()


def open_recorder(topology: Topology, flow: Flow, settings: Mapping[str, Any], ended: threading.Event) -> Recording:
    """Return one flow's recorder, not yet running, with clients of both clusters and of Connect.

    Args:
        settings: the parsed JSON of standard input, as the module's docstring describes it.
        ended: the recorder ends when this event is set.

    Raises:
        NotReady: other users may read the archive's folder.
    """
    # `recorder` is never None here: the DAG that starts this process refuses a topology without it.
    name, recorder = f"{flow.source}->{flow.target}", cast("Recorder", topology.recorder)
    if folder := local_folder(recorder.archive):
        refuse_open([folder])
    source, target = (settings["clusters"][alias] for alias in (flow.source, flow.target))
    access = Access(
        KafkaCluster(flow.source, source),
        KafkaCluster(flow.target, target),
        RecordReader(source, flow.source, flow.isolation, _QUEUED_KBYTES, keeps_client=True),
        RecordReader(target, flow.target, queued_kbytes=_QUEUED_KBYTES, keeps_client=True),
        _connectors(topology, flow, settings["workers"]),
        _flow_back(topology, flow, settings["workers"]),
    )
    archive = Archive(recorder.archive, f"{flow.source}-to-{flow.target}", settings["archive"])
    proof = SampleProof(name, recorder.public_keys)
    samples = SignedSamples(archive, proof) if recorder.public_keys else archive
    signing, unsigned_because = None, None
    try:
        if signer := signer_of(recorder, os.environ.get(KEY_VARIABLE)):
            notes = JournalNotes(name, lambda: Journal(settings["journal"]), recorder.interval_seconds / 2)
            signing = SampleSigning(archive, SAMPLES, proof, signer, notes)
    except BadInput as error:
        unsigned_because = str(error)
    sampler = Looker(flow, topology.names, access, recorder.interval_seconds, lambda: read_so_far(samples))
    return Recording(
        name,
        sampler.look,
        archive,
        recorder.interval_seconds,
        timedelta(days=recorder.retention_days),
        ended,
        signing,
        unsigned_because,
    )


def signer_of(recorder: Recorder, path: str | None) -> Signer | None:
    """Return the signer of samples; None if the topology names no public key.

    Args:
        path: the file with the private key; None if the environment names none.

    Raises:
        BadInput: the private key is missing, cannot be used, or belongs to none of the public keys.
    """
    return Signer.of_topology(path, KEY_VARIABLE, recorder.public_keys) if recorder.public_keys else None


def _connectors(topology: Topology, flow: Flow, workers: Mapping[str, Any]) -> FlowConnectors | None:
    """Return a flow's connectors; None in dedicated mode."""
    clients = [_worker(**workers[connection]) for connection in flow.workers]
    return FlowConnectors(flow, topology.names, *clients) if clients else None


def _worker(url: str, user: str, password: str, tls: Mapping[str, Any]) -> MirrorMaker:
    return MirrorMaker(url, (user, password) if user else None, HttpTls(**tls))


def _flow_back(topology: Topology, flow: Flow, workers: Mapping[str, Any]) -> FlowBack | None:
    """Return the reverse flow's connectors; None without a reverse flow or identity naming.

    Under another naming the reverse flow writes to topics that the recorded flow does not mirror.
    """
    back = topology.find_flow(flow.target, flow.source)
    return FlowBack(_connectors(topology, back, workers)) if back and topology.naming.policy == "identity" else None


def _end_with_parent(ended: threading.Event) -> None:
    """Set `ended` when standard input ends with the parent process, because Airflow then starts a new recorder."""
    # Not sys.stdin: Python aborts at exit if another thread still holds the lock of that reader.
    while os.read(0, 1):
        pass
    ended.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
