"""Keep the flight recorder running, in a child process that ends with the Airflow task."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from typing import Any

from airflow.sdk import BaseOperator

from kafka_dr.concurrently import run_in_background
from kafka_dr.config.settings import load_topology
from kafka_dr.config.topology import Topology
from kafka_dr.connections import Connections
from kafka_dr.domain.notices.service_notices import RECORDER
from kafka_dr.domain.runbook_pages import page_of_failure
from kafka_dr.errors import BadInput, SystemUnavailable
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.installation import python_path
from kafka_dr.steps.always_on.channels import deliver_notice
from kafka_dr.watcher.notices import watch_notices

#: Interval, in seconds, at which this task looks for due notices, and shows that the recorder lives.
_LOOK_SECONDS = 5.0


class RecordPositions(BaseOperator):
    """Run the flight recorder as a child process and copy its output to the task's log.

    When the recorder ends, the task fails, and Airflow's retry starts a new recorder. A thread of the task sends
    notices as the watcher does, because a watcher that is silent cannot tell so itself.
    """

    def execute(self, context: Any) -> None:
        """Run until the recorder ends, which fails the task, or until Airflow ends the task."""
        topology = load_topology()
        if topology.recorder is None:
            raise BadInput(
                "The topology has no recorder",
                "`recorder` is missing",
                "Name an archive under `recorder` in the topology, or pause the DAG record_positions."
                f" Page: {page_of_failure(self.task_id)}",
            )
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kafka_dr.commands.record_positions"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            # Kafka's clients have dozens of threads; glibc would let most of them keep memory of their own.
            env={"MALLOC_ARENA_MAX": "2", **os.environ, "PYTHONPATH": python_path()},
        )  # fmt: skip
        print(json.dumps(recorder_settings(topology, Connections())), file=self._process.stdin, flush=True)
        self._begin_notices()
        for line in self._process.stdout or ():
            self.log.info(line.rstrip())
        raise SystemUnavailable(
            "The recorder ended",
            f"exit code {self._process.wait()}",
            "Read the recorder's last lines in the task's log. Airflow starts the recorder again."
            f" Page: {page_of_failure(self.task_id)}",
        )

    def _begin_notices(self) -> None:
        """Send notices on a thread, and show there that the recorder's process lives, until it has ended."""

        def show_life(journal: Journal) -> None:
            journal.show_life(RECORDER)

        def ended() -> bool:
            return self._process.poll() is not None

        run_in_background(partial(watch_notices, self.log.info, deliver_notice, _LOOK_SECONDS, show_life, ended))

    def on_kill(self) -> None:
        """End the recorder; the recorder has 30 s to save the sample that it is taking."""
        self._process.terminate()
        self._process.wait(timeout=30)


def recorder_settings(topology: Topology, connections: Connections) -> dict[str, Any]:
    """Return what the recorder is told: topology path, connections, archive options, for signed samples the journal.

    The recorder cannot read connections itself.
    """
    logins = {
        worker: {
            **dict(zip(("url", "user", "password"), connections.login(worker), strict=True)),
            "tls": asdict(connections.tls(worker)),
        }
        for flow in topology.flows
        for worker in flow.workers
    }
    archive = topology.recorder.connection if topology.recorder else None
    signed = topology.recorder is not None and topology.recorder.public_keys
    return {
        "topology": os.environ["KAFKA_DR_TOPOLOGY"],
        "clusters": {alias: connections.kafka(cluster.connection) for alias, cluster in topology.clusters.items()},
        "workers": logins,
        "archive": connections.archive_options(archive) if archive else {},
        **({"journal": connections.journal_url(topology.journal.connection)} if signed else {}),
    }
