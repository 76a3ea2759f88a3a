"""What labs with and without Airflow promise: replication, fences, rights, secrets."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lab.environment.connect import call_url, call_worker, connector_config
from lab.environment.drills.markers import MARKER
from lab.environment.progress import wait_until
from lab.environment.state import ALIASES, DRILL_CLIENT, Lab
from lab.rehearsal.run import run_dag
from tests.support.lab_clients import HEADERS, SECONDS, client, mirrored, new_topic, read_one, reader, refusals


@pytest.fixture(params=["planned_lab", "bare_lab"])
def lab(request: pytest.FixtureRequest) -> Lab:
    """Each of the two labs."""
    return request.getfixturevalue(request.param)


def test_a_new_topic_is_mirrored_with_its_headers_soon(lab: Lab) -> None:
    """A topic made now stands on the standby with all partitions, and a record's headers arrive unchanged."""
    topic = new_topic(lab, "primary")
    copy, watcher = mirrored(lab, topic), AdminClient(client(lab, "standby", "admin"))
    start = time.monotonic()
    wait_until(lambda: watcher.list_topics(copy, timeout=5).topics[copy].error is None, "the mirrored topic", SECONDS)
    print(f"{lab.load().policy}: new topic on standby after {time.monotonic() - start:.1f} s")
    assert len(watcher.list_topics(copy, timeout=5).topics[copy].partitions) == 3
    assert refusals(lab, "primary", topic) == []
    assert read_one(lab, copy) == HEADERS


@pytest.mark.parametrize("idempotent", [False, True])
def test_the_standby_refuses_producers_also_on_new_topics(lab: Lab, idempotent: bool) -> None:
    """On the standby a producer may write neither to a mirrored topic nor to one made later."""
    later = new_topic(lab, "standby")
    for topic in (mirrored(lab, "lab-readiness"), later):
        assert refusals(lab, "standby", topic, **{"enable.idempotence": idempotent}) == ["TOPIC_AUTHORIZATION_FAILED"]


def test_a_group_gets_its_checkpoint(lab: Lab) -> None:
    """A position committed on the primary appears among MM2's checkpoints on the standby."""
    topic, group = new_topic(lab, "primary", 1), f"grüppe-{uuid.uuid4().hex[:6]}"
    assert refusals(lab, "primary", topic) == []
    consumer = Consumer(
        {**client(lab, "primary", "consumer"), "group.id": group, "isolation.level": "read_uncommitted"}
    )
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    records = reader(lab, "admin", [TopicPartition("primary.checkpoints.internal", 0, 0)])
    wait_until(
        lambda: (found := records.poll(0.5)) is not None and group.encode() in (found.key() or b""),
        "the checkpoint",
        SECONDS,
        pause=0.0,
    )
    records.close()


def test_the_reverse_flow_stands_by(lab: Lab) -> None:
    """All reverse connectors but heartbeats are STOPPED without tasks; the watcher's marker may stand beside them."""
    found = call_worker(lab, "primary", "GET", "/connectors?expand=status&expand=info").json()
    of_flow = {name: entry for name, entry in found.items() if "switchback" not in name}
    seen = {name.rpartition("-")[2]: entry["status"] for name, entry in of_flow.items()}
    result = {kind: status["connector"]["state"] for kind, status in seen.items()}
    assert result == {"source": "STOPPED", "checkpoint": "STOPPED", "heartbeat": "RUNNING"}
    assert seen["source"]["tasks"] == seen["checkpoint"]["tasks"] == []


def test_heartbeats_of_the_source_arrive_on_the_target(lab: Lab) -> None:
    """Written on the primary, mirrored to the standby."""
    records = reader(lab, "admin", [TopicPartition("primary.heartbeats", 0, 0)])
    wait_until(
        lambda: (found := records.poll(0.5)) is not None and found.error() is None, "a heartbeat", SECONDS, pause=0.0
    )
    records.close()


@pytest.mark.parametrize("alias", ALIASES)
def test_a_cluster_has_a_worker_and_a_marker_for_drills(lab: Lab, alias: str) -> None:
    """The worker serves no connector yet, and writes to the cluster beside it; the marker has one empty partition."""
    url, admin = lab.drill_connect_url(alias), AdminClient(client(lab, alias, "admin"))
    assert call_url(lab, "GET", f"{url}/").json()["kafka_cluster_id"] == lab.load().cluster_ids[alias]
    assert lab.processes.pid(f"drill-{alias}") and call_url(lab, "GET", f"{url}/connectors").json() == []
    assert list(admin.list_topics(timeout=10).topics[MARKER].partitions) == [0]


def test_a_drills_topic_is_mirrored_by_the_drills_connector_alone(lab: Lab) -> None:
    """The clients of drills write on both sides of it, also on the fenced standby, and to no other topic."""
    short, separator = uuid.uuid4().hex[:10], ".switchback-drill."
    topic, name = f"switchback-drill.{short}.orders.replica", f"switchback-drill.{short}.primary-standby.source"
    copy = topic if lab.load().policy == "identity" else f"primary{separator}{topic}"
    admins = {alias: AdminClient(client(lab, alias, "admin")) for alias in ALIASES}
    admins["primary"].create_topics([NewTopic(topic, 1, -1)])[topic].result(timeout=SECONDS)
    config = connector_config(lab, "primary", "standby", "source") | {
        "name": name,
        "topics": re.escape(topic),
        "topics.exclude": "none",
        "replication.policy.separator": separator,
        "heartbeats.replication.enabled": "false",
    }
    connector = f"{lab.drill_connect_url('standby')}/connectors/{name}"
    assert call_url(lab, "PUT", f"{connector}/config", config).ok
    wait_until(lambda: copy in admins["standby"].list_topics(timeout=5).topics, "the mirrored topic", SECONDS)
    login = {"sasl.username": DRILL_CLIENT, "sasl.password": lab.load().passwords[DRILL_CLIENT]}
    assert refusals(lab, "primary", topic, **login) == [] and read_one(lab, copy, 1) == HEADERS
    assert refusals(lab, "standby", copy, **{**login, "enable.idempotence": True}) == []
    assert refusals(lab, "primary", "lab-readiness", **login) == ["TOPIC_AUTHORIZATION_FAILED"]
    assert call_url(lab, "DELETE", connector).ok
    found = {alias: {name for name in admin.list_topics(timeout=10).topics if "switchback-drill." in name} for
             alias, admin in admins.items()}  # fmt: skip
    syncs = "mm2-offset-syncs.switchback-drill.primary.switchback-drill.internal"
    assert found == {"primary": {topic}, "standby": {copy, syncs}}
    for alias, names in found.items():
        for future in admins[alias].delete_topics(list(names), request_timeout=SECONDS).values():
            future.result(timeout=SECONDS)


def test_no_connector_tells_a_password(lab: Lab) -> None:
    """A connector's configuration names the file that holds it."""
    found = call_worker(lab, "primary", "GET", "/connectors?expand=info").json()
    assert lab.load().passwords["mm2"] not in json.dumps(found)


def test_an_unknown_topic_is_not_made_by_asking(lab: Lab) -> None:
    """A client that asks for a topic does not create it: it could stand in the way of the mirrored one."""
    assert refusals(lab, "primary", f"nobody-made-{uuid.uuid4().hex[:6]}", **{"message.timeout.ms": 3000}) != []


def test_passwords_stand_in_no_log(lab: Lab) -> None:
    """No log of the lab holds one of its passwords."""
    passwords = [password.encode() for password in lab.load().passwords.values()]
    leaks = [
        file.name
        for file in lab.logs.rglob("*")
        if file.is_file() and any(word in file.read_bytes() for word in passwords)
    ]
    assert leaks == []


def test_viewer_and_strangers_start_nothing(planned_lab: Lab) -> None:
    """Airflow lets the operator start a DAG, and refuses the viewer and those without a login."""
    airflow = planned_lab.status()["airflow"]
    body = {"logical_date": None, "conf": {}}
    url = f"{airflow['url']}/api/v2/dags/lab_warm_up/dagRuns"
    assert requests.post(url, json=body, timeout=30).status_code == requests.codes.unauthorized
    login = {"username": "viewer", "password": airflow["users"]["viewer"]["password"]}
    token = requests.post(f"{airflow['url']}/auth/token", json=login, timeout=30).json()["access_token"]
    refused = requests.post(url, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=30)
    assert refused.status_code == requests.codes.forbidden


def test_a_run_is_followed_to_its_last_line(planned_lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """`run` prints each step, and outcome, failing step and reason last."""
    assert run_dag(planned_lab, "lab_warm_up", {}, timeout=120) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "outcome=completed failing_step=- reason=-"
    assert any("run_once" in line and "success" in line for line in lines)


def test_a_healthy_flow_is_diagnosed(planned_lab: Lab) -> None:
    """Airflow runs the steps of diagnose_replication on the lab's flow, and no fault is found."""
    conf = {"source": "primary", "target": "standby", "reason": "is all well?"}
    assert run_dag(planned_lab, "diagnose_replication", conf, timeout=180) == 0
    (path,) = planned_lab.evidence.glob("diagnose_replication-*/evidence.json")
    evidence = json.loads(path.read_text(encoding="utf-8"))
    assert evidence["reason_for_outcome"] == "no fault was found"
    (figures,) = (step["figures"] for step in evidence["steps"] if step["id"] == "diagnose_replication")
    assert [one["id"] for one in figures["choices"]] == ["group_sync_off"] and figures["not_asked"] == {}


def test_nothing_listens_beyond_this_machine(planned_lab: Lab) -> None:
    """Every socket that a process of the lab listens on is bound to 127.0.0.1."""
    mine = {f"socket:[{inode}]" for inode in _listening_inodes(everywhere_only=True)}
    for pid in planned_lab.processes.members():
        try:
            open_files = {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()}
        except OSError:
            continue
        assert not open_files & mine, Path(f"/proc/{pid}/cmdline").read_bytes()


def _listening_inodes(everywhere_only: bool) -> Iterator[str]:
    for table, loopback in (
        ("tcp", ("0100007F",)),
        ("tcp6", ("00000000000000000000000001000000", "0000000000000000FFFF00000100007F")),
    ):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and not (everywhere_only and fields[1].split(":")[0] in loopback):
                yield fields[9]
