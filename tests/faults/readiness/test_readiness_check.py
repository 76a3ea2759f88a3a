"""Each finding of readiness_check, provoked on real clusters: found at the next check, and gone when it is mended."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from lab.environment.brokers import admin_client
from lab.environment.connect import call_worker, connector_name
from lab.environment.processes import list_processes
from lab.environment.state import Lab
from tests.faults.readiness.one_check import SOURCE, TARGET, check, pass_drill
from tests.faults.support import always_on
from tests.faults.support.scene import until

#: Of the last topic brokers set the timestamps, so that copies have other ones than their originals.
BUSY, IDLE, APPENDED, PARTITIONS = "busy", "idle", "appended", 3
#: Records written while MirrorMaker 2 is stopped: the truth that the lag is compared with.
WRITTEN, WRITTEN_TO_APPENDED = 300, 50
#: Limits in seconds that let faults be found soon, and still leave room for this machine's pauses.
LIMITS = {"record_age_seconds": 20.0, "replication_latency_seconds": 20.0}
MENDED_SECONDS = 90.0
#: A little longer than a minute and three intervals of the lab's recorder.
SILENT_SECONDS = 93.0


class Site:
    """A lab with a busy topic, an idle one, and what each check has said."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._producer = Producer({**lab.client_properties(SOURCE, "admin"), "linger.ms": 5})
        admin = admin_client(lab, SOURCE)
        by_broker = NewTopic(APPENDED, 1, 1, config={"message.timestamp.type": "LogAppendTime"})
        for future in admin.create_topics([NewTopic(BUSY, PARTITIONS, 1), NewTopic(IDLE, 1, 1), by_broker]).values():
            future.result()
        topology = yaml.safe_load(lab.topology.read_text())
        for flow in topology["flows"]:
            flow["readiness"] = dict(LIMITS)
        lab.topology.write_text(yaml.safe_dump(topology))

    def write(self, topic: str, count: int) -> None:
        """Write so many records, spread over the topic's partitions, and wait for their acknowledgement."""
        for number in range(count):
            self._producer.produce(
                topic, f"{topic} {time.time_ns()} {number}", partition=number % PARTITIONS * (topic == BUSY)
            )
        assert self._producer.flush(30) == 0

    @contextmanager
    def under_load(self) -> Iterator[None]:
        """Write to the busy topic inside this context."""
        ended = threading.Event()

        def work() -> None:
            while not ended.wait(0.1):
                self.write(BUSY, 20)

        writer = threading.Thread(target=work)
        writer.start()
        try:
            yield
        finally:
            ended.set()
            writer.join()

    def check(self) -> dict[str, Any]:
        """Check once, and print what was said."""
        document = check(self.lab)
        print(
            json.dumps({k: document[k] for k in ("state", "reasons", "if_now", "lag", "ages", "took_seconds")}),
            flush=True,
        )
        return document

    def connector(self, method: str, what: str, body: Any = None) -> Any:
        """Ask the flow's source connector, or tell it something."""
        name = connector_name(SOURCE, TARGET, "source")
        answer = call_worker(self.lab, TARGET, method, f"/connectors/{name}/{what}", body)
        answer.raise_for_status()
        return answer

    def stands(self) -> bool:
        """Whether the source connector is STOPPED without tasks."""
        status = self.connector("GET", "status").json()
        return status["connector"]["state"] == "STOPPED" and not status["tasks"]

    def mended(self, *ids: str) -> dict[str, Any]:
        """Check until none of these findings is left."""
        return dict(until(lambda: self._without(ids), f"{ids} to be mended", MENDED_SECONDS, pause=1.0))

    def _without(self, ids: tuple[str, ...]) -> dict[str, Any] | None:
        document = self.check()
        return None if found(document) & {*ids} else document


def found(document: dict[str, Any]) -> set[str]:
    """The ids of what was found, but warnings."""
    return {finding["id"] for finding in document["findings"] if finding["severity"] != "warning"}


def signal_session(lab: Lab, name: str, number: int) -> None:
    """Send a signal to all processes of one of the lab's sessions."""
    leader = lab.processes.pid(name)
    for seen in list_processes():
        if seen.session == leader:
            os.kill(seen.pid, number)


def test_findings_come_and_go(fresh_lab: Callable[..., Path]) -> None:
    """On one lab, one fault after the other, under load; and none on the healthy lab."""
    lab = Lab(fresh_lab("identity", airflow=False))
    for dag_id in (always_on.RECORDER, always_on.WATCHER):
        always_on.start(lab, dag_id)
    site = Site(lab)
    site.write(IDLE, 5)
    site.write(APPENDED, 5)
    with site.under_load():
        healthy = site.mended(
            "topics_match", "recorder_silent", "watcher_silent", "replication_latency", "figure_unknown"
        )
        assert found(healthy) == {"drill_missing"}, healthy["reasons"]
        pass_drill(lab)
        for _ in range(3):
            document = site.check()
            assert document["state"] == "VERIFIED", document["reasons"]
    the_flow_stands(site)
    a_setting_differs(site)
    the_recorder_is_frozen(site)
    the_source_is_away(site)


def the_flow_stands(site: Site) -> None:
    """The source connector is stopped, records wait, and a topic is deleted on the target."""
    site.mended("record_age")
    until(lambda: site.check()["lag"]["records"] == 0, "the target to have all", MENDED_SECONDS)
    site.connector("PUT", "stop")
    until(site.stands, "the connector to stand")
    site.write(BUSY, WRITTEN)
    site.write(APPENDED, WRITTEN_TO_APPENDED)
    admin = admin_client(site.lab, TARGET)
    (deleted,) = admin.delete_topics([IDLE]).values()
    deleted.result()
    time.sleep(LIMITS["record_age_seconds"] + 1)
    document = site.check()
    assert found(document) >= {"connectors_run", "record_age", "replication_latency", "topics_match"}, document[
        "reasons"
    ]
    assert document["state"] == "NOT_VERIFIED"
    lag, if_now = document["lag"], document["if_now"]
    truth = WRITTEN + WRITTEN_TO_APPENDED
    assert (lag["records"], if_now["possible"], if_now["certain"]) == (truth, truth, truth)
    assert lag["seconds"] > LIMITS["record_age_seconds"] and lag["bytes"] > 10 * WRITTEN
    assert [row["topic"] for row in lag["worst"]] == [BUSY] * PARTITIONS + [APPENDED]
    site.connector("PUT", "resume")
    document = site.mended("connectors_run", "record_age", "replication_latency", "topics_match")
    assert document["lag"]["records"] == 0
    # MirrorMaker 2 has created the topic again, and will never copy the records that were in it.
    assert found(document) == {"copies_missing"}, document["reasons"]
    site.write(IDLE, 1)
    site.mended("copies_missing")


def a_setting_differs(site: Site) -> None:
    """The drill does not count any more; it does again when the setting is as it was."""
    config = site.connector("GET", "config").json()
    site.connector("PUT", "config", {**config, "offset.lag.max": "77"})
    document = site.mended("connectors_run", "figure_unknown", "replication_latency")
    assert document["state"] == "NEEDS_VERIFICATION" and found(document) == {"changed_since_drill"}, document["reasons"]
    assert "offset.lag.max" in document["reasons"][0] and "now 77" in document["reasons"][0]
    site.connector("PUT", "config", config)
    assert site.mended("changed_since_drill", "connectors_run", "replication_latency")["state"] == "VERIFIED"


def the_recorder_is_frozen(site: Site) -> None:
    """Its newest sample grows old."""
    name = f"always-on-{always_on.RECORDER}"
    signal_session(site.lab, name, signal.SIGSTOP)
    time.sleep(SILENT_SECONDS)
    document = site.check()
    signal_session(site.lab, name, signal.SIGCONT)
    assert found(document) == {"recorder_silent"}, document["reasons"]
    assert site.mended("recorder_silent")["state"] == "VERIFIED"


def the_source_is_away(site: Site) -> None:
    """Nothing of it is taken for good; what it accepted meanwhile is unknown, and no figure is 0 for it."""
    pid = site.lab.status()["clusters"][SOURCE]["pids"]["broker"]
    os.kill(pid, signal.SIGSTOP)
    try:
        document = site.check()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert document["state"] in ("UNKNOWN", "NOT_VERIFIED") and "cannot_read" in found(document), document["reasons"]
    assert document["lag"] is None and document["if_now"]["possible"] is None
    assert document["if_now"]["certain"] == 0 and document["if_now"]["at"]["certain"]
    site.mended("cannot_read", "figure_unknown", "fingerprint_unknown", "replication_latency", "connectors_run")
