"""The init jobs kafka-init, store-init, connectors-init and stack-init: `python -m lab.containers.set_up JOB`.

Compose runs each job at every start of the stack; a job creates only what is missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import fsspec
from confluent_kafka.admin import NewTopic

from lab.containers.prepare import topics_of
from lab.containers.stack import ROOT
from lab.environment.airflow_services import wait_for_airflow
from lab.environment.airflow_settings import store_login
from lab.environment.bring_up import grant_rights
from lab.environment.brokers import admin_client
from lab.environment.connect import create_flows
from lab.environment.production.profile import BUCKET
from lab.environment.progress import ProgressLines
from lab.environment.replication_check import prove_replication
from lab.environment.state import ALIASES, Lab
from lab.errors import LabError

DEMO_PARTITIONS = 3
REQUEST_SECONDS = 30


def set_up_kafka(lab: Lab, progress: ProgressLines) -> None:
    """kafka-init: create both clusters' ACL entries, which fence the standby, and the demo's topics on the primary."""
    for alias in ALIASES:
        grant_rights(lab, alias)
    progress.say("rights are granted; the standby is fenced")
    lab.once("demo-topics", lambda: _create_topics(lab, topics_of(os.environ)))


def set_up_store(lab: Lab, progress: ProgressLines) -> None:
    """store-init: create the store's bucket."""
    files = fsspec.filesystem("s3", **store_login(lab.load()), skip_instance_cache=True)
    if not files.exists(BUCKET):
        files.mkdir(BUCKET)
    progress.say(f"the store has the bucket {BUCKET}")


def create_connectors(lab: Lab, progress: ProgressLines) -> None:
    """connectors-init: create both flows' connectors; write a test record on the primary and read it on the standby."""
    for worker in ALIASES:
        lab.once(f"flow-{worker}", lambda worker=worker: create_flows(lab, worker))  # type: ignore[misc]
    progress.say("MirrorMaker 2: primary->standby runs, standby->primary is STOPPED")
    # Only once per stack: after a procedure has moved clients, a test record could disturb the procedure.
    lab.once("replication-proof", lambda: progress.say(prove_replication(lab)))


def await_readiness(lab: Lab, progress: ProgressLines) -> None:
    """stack-init: wait until all Airflow components are healthy, every DAG file is parsed, and one task has run."""
    wait_for_airflow(lab, progress, lambda: None)
    progress.say("a failover can be triggered")


JOBS: dict[str, Callable[[Lab, ProgressLines], None]] = {
    "kafka-init": set_up_kafka,
    "store-init": set_up_store,
    "connectors-init": create_connectors,
    "stack-init": await_readiness,
}


def _create_topics(lab: Lab, names: list[str]) -> None:
    if not names:
        return
    client = admin_client(lab, "primary")
    existing = client.list_topics(timeout=REQUEST_SECONDS).topics
    new_topics = [NewTopic(name, DEMO_PARTITIONS, -1) for name in names if name not in existing]
    for future in client.create_topics(new_topics).values() if new_topics else ():
        future.result(timeout=REQUEST_SECONDS)


def main(arguments: list[str]) -> int:
    """Run the init job that `arguments` name; return the exit code: 0, or 1 after a LabError, which is printed."""
    (job,) = arguments
    try:
        JOBS[job](Lab(ROOT), ProgressLines())
    except LabError as error:
        print(f"{job}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
