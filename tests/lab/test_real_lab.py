"""The real thing: two labs side by side, one of each naming policy, killed, brought back, and taken down."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lab.bring_up import up
from lab.mirror_maker import call, flow_is_stopped
from lab.procedure_run import run
from lab.processes import sighting
from lab.progress import wait_until
from lab.state import Lab
from lab.take_down import down

pytestmark = pytest.mark.lab
SECONDS = 60.0
HEADERS = [("h", b"\x00\xff1"), ("empty", None)]


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with identity naming and Airflow, in a folder that also holds somebody else's file."""
    state = tmp_path_factory.mktemp("identity lab")
    (state / "mine.txt").write_text("mine")
    yield from _lab(state, airflow=True, policy="identity")


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory, identity: Lab) -> Iterator[Lab]:
    """A second lab beside the first, with default naming and without Airflow."""
    yield from _lab(tmp_path_factory.mktemp("default"), airflow=False, policy="default")


def _lab(state: Path, airflow: bool, policy: str) -> Iterator[Lab]:
    try:
        up(state, airflow=airflow, policy=policy)
        yield Lab(state)
    finally:
        down(state)


def _client(lab: Lab, alias: str, principal: str) -> dict:
    return {**lab.status()["clusters"][alias]["client_properties"][principal], "log_level": 0}


def _refusals(lab: Lab, alias: str, topic: str, **settings: object) -> list[str]:
    """Write one record as an ordinary producer; answers why it was refused."""
    seen: list[str] = []
    producer = Producer({**_client(lab, alias, "producer"), "message.timeout.ms": 20_000, **settings})
    producer.produce(
        topic, value=b"v", key=b"k", headers=HEADERS, on_delivery=lambda e, _: seen.append(e.name() if e else "")
    )
    producer.flush(30)
    return [name for name in seen if name]


def _new_topic(lab: Lab, alias: str, partitions: int = 3) -> str:
    name, client = f"ho.orders-{uuid.uuid4().hex[:6]}", AdminClient(_client(lab, alias, "admin"))
    client.create_topics([NewTopic(name, partitions, 1)])[name].result(timeout=SECONDS)
    return name


def _mirrored(lab: Lab, topic: str) -> str:
    return topic if lab.load().policy == "identity" else f"primary.{topic}"


def _read_one(lab: Lab, topic: str, partitions: int = 3) -> list:
    """Headers of the first record of a topic on the standby."""
    consumer = _reader(lab, "consumer", [TopicPartition(topic, partition, 0) for partition in range(partitions)])
    try:
        message = wait_until(
            lambda: (found := consumer.poll(0.5)) is not None and not found.error() and (found,), "a record", SECONDS
        )[0]
        return message.headers()
    finally:
        consumer.close()


def _reader(lab: Lab, principal: str, partitions: list[TopicPartition]) -> Consumer:
    """A consumer on the standby that reads these partitions from their beginning."""
    settings = {"group.id": "t", "isolation.level": "read_uncommitted", "auto.offset.reset": "earliest"}
    consumer = Consumer({**_client(lab, "standby", principal), **settings})
    consumer.assign(partitions)
    return consumer


@pytest.fixture(params=["identity", "default"])
def lab(request: pytest.FixtureRequest) -> Lab:
    """Each of the two labs."""
    return request.getfixturevalue(request.param)


def test_a_new_topic_is_mirrored_with_its_headers_soon(lab: Lab) -> None:
    """A topic made now stands on the standby with all partitions, and a record's headers arrive unchanged."""
    topic = _new_topic(lab, "primary")
    mirrored, watcher = _mirrored(lab, topic), AdminClient(_client(lab, "standby", "admin"))
    start = time.monotonic()
    wait_until(
        lambda: watcher.list_topics(mirrored, timeout=5).topics[mirrored].error is None, "the mirrored topic", SECONDS
    )
    print(f"{lab.load().policy}: new topic on standby after {time.monotonic() - start:.1f} s")
    assert len(watcher.list_topics(mirrored, timeout=5).topics[mirrored].partitions) == 3
    assert _refusals(lab, "primary", topic) == []
    assert _read_one(lab, mirrored) == HEADERS


@pytest.mark.parametrize("idempotent", [False, True])
def test_the_standby_refuses_producers_also_on_new_topics(lab: Lab, idempotent: bool) -> None:
    """On the standby a producer may write neither to a mirrored topic nor to one made later."""
    later = _new_topic(lab, "standby")
    for topic in (_mirrored(lab, "lab-readiness"), later):
        assert _refusals(lab, "standby", topic, **{"enable.idempotence": idempotent}) == ["TOPIC_AUTHORIZATION_FAILED"]


def test_a_group_gets_its_checkpoint(lab: Lab) -> None:
    """A position committed on the primary appears among MM2's checkpoints on the standby."""
    topic, group = _new_topic(lab, "primary", 1), f"grüppe-{uuid.uuid4().hex[:6]}"
    assert _refusals(lab, "primary", topic) == []
    consumer = Consumer(
        {**_client(lab, "primary", "consumer"), "group.id": group, "isolation.level": "read_uncommitted"}
    )
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    reader = _reader(lab, "admin", [TopicPartition("primary.checkpoints.internal", 0, 0)])
    wait_until(
        lambda: (found := reader.poll(0.5)) is not None and group.encode() in (found.key() or b""),
        "the checkpoint",
        SECONDS,
        pause=0.0,
    )
    reader.close()


def test_the_reverse_flow_stands_by(lab: Lab) -> None:
    """All reverse connectors exist; but for heartbeats they are STOPPED and without tasks; no connector tells a
    password.
    """
    found = call(lab, "primary", "GET", "/connectors?expand=status&expand=info").json()
    seen = {name.rpartition("-")[2]: entry["status"] for name, entry in found.items()}
    assert {kind: status["connector"]["state"] for kind, status in seen.items()} == {
        "source": "STOPPED",
        "checkpoint": "STOPPED",
        "heartbeat": "RUNNING",
    }
    assert seen["source"]["tasks"] == seen["checkpoint"]["tasks"] == []


def test_heartbeats_of_the_source_arrive_on_the_target(lab: Lab) -> None:
    """Written on the primary, mirrored to the standby."""
    reader = _reader(lab, "admin", [TopicPartition("primary.heartbeats", 0, 0)])
    wait_until(
        lambda: (found := reader.poll(0.5)) is not None and found.error() is None, "a heartbeat", SECONDS, pause=0.0
    )
    reader.close()


def test_no_connector_tells_a_password(lab: Lab) -> None:
    """A connector's configuration names the file that holds it."""
    found = call(lab, "primary", "GET", "/connectors?expand=info").json()
    assert lab.load().passwords["mm2"] not in json.dumps(found)


def test_an_unknown_topic_is_not_made_by_asking(lab: Lab) -> None:
    """A client that asks for a topic does not create it: it could stand in the way of the mirrored one."""
    assert _refusals(lab, "primary", f"nobody-made-{uuid.uuid4().hex[:6]}", **{"message.timeout.ms": 3000}) != []


def test_passwords_stand_in_no_log(lab: Lab) -> None:
    """No log of the lab holds one of its passwords."""
    passwords = [password.encode() for password in lab.load().passwords.values()]
    leaks = [
        file.name
        for file in lab.logs.rglob("*")
        if file.is_file() and any(word in file.read_bytes() for word in passwords)
    ]
    assert leaks == []


def test_viewer_and_strangers_start_nothing(identity: Lab) -> None:
    """Airflow lets the operator start a DAG, and refuses the viewer and those without a login."""
    airflow = identity.status()["airflow"]
    body = {"logical_date": None, "conf": {}}
    url = f"{airflow['url']}/api/v2/dags/lab_warm_up/dagRuns"
    assert requests.post(url, json=body, timeout=30).status_code == requests.codes.unauthorized
    login = {"username": "viewer", "password": airflow["users"]["viewer"]["password"]}
    token = requests.post(f"{airflow['url']}/auth/token", json=login, timeout=30).json()["access_token"]
    refused = requests.post(url, json=body, headers={"Authorization": f"Bearer {token}"}, timeout=30)
    assert refused.status_code == requests.codes.forbidden


def test_a_run_is_followed_to_its_last_line(identity: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """`run` prints each step, and outcome, failing step and reason last."""
    assert run(identity.root, "lab_warm_up", {}, timeout=120) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "outcome=completed failing_step=- reason=-"
    assert any("run_once" in line and "success" in line for line in lines)


def test_nothing_listens_beyond_this_machine(identity: Lab) -> None:
    """Every socket that a process of the lab listens on is bound to 127.0.0.1."""
    mine = {f"socket:[{inode}]" for inode in _listening_inodes(everywhere_only=True)}
    for pid in identity.processes.members():
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


def test_a_killed_broker_comes_back_with_its_records(default: Lab) -> None:
    """After kill -9 of a broker nothing restarts it; `up` does, and its topics, fence and flow are as before."""
    topic = _new_topic(default, "primary")
    killed = default.status()["clusters"]["primary"]["pids"]["broker"]
    other = default.status()["clusters"]["standby"]["pids"]
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: default.processes.pid("broker-primary") is None, "the broker's death", SECONDS)
    time.sleep(1.0)
    assert default.status()["clusters"]["primary"]["pids"]["broker"] is None
    up(default.root, airflow=False)
    assert default.status()["clusters"]["standby"]["pids"] == other
    assert topic in AdminClient(_client(default, "primary", "admin")).list_topics(timeout=10).topics
    assert _refusals(default, "standby", "primary.lab-readiness") == ["TOPIC_AUTHORIZATION_FAILED"]


def test_up_does_not_undo_what_a_procedure_did(default: Lab) -> None:
    """`up` starts no stopped connector and raises no lifted fence."""
    assert call(default, "standby", "PUT", "/connectors/primary-to-standby-source/stop").ok
    wait_until(lambda: flow_is_stopped(default, "standby"), "the connector to stop", SECONDS)
    up(default.root, airflow=False)
    assert flow_is_stopped(default, "standby")


def test_down_after_a_crash_stops_all_and_keeps_what_it_did_not_make(identity: Lab) -> None:
    """With the scheduler and a worker killed, `down` still leaves no process, and keeps evidence and foreign files."""
    kept = identity.evidence / "p-1" / "evidence.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    members, address = (
        set(identity.processes.members()),
        identity.status()["clusters"]["primary"]["client_properties"]["admin"],
    )
    for name in ("airflow-scheduler", "connect-standby"):
        os.kill(identity.processes.pid(name) or 0, signal.SIGKILL)
    down(identity.root)
    down(identity.root)
    assert not [pid for pid in members if (seen := sighting(pid)) and seen.state != "Z"]
    assert sorted(path.name for path in identity.root.iterdir()) == ["evidence", "mine.txt"]
    assert kept.exists()
    with pytest.raises(KafkaException):
        AdminClient({**address, "log_level": 0}).list_topics(timeout=2)
