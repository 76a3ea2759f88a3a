"""The lab's profile `production` on real parts: TLS, replicas, memory, what is killed, and a planned failover."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from lab.environment.bring_up import up
from lab.environment.connect import call_worker
from lab.environment.drills.markers import MARKER
from lab.environment.production.profile import certificates_port, member_name
from lab.environment.progress import wait_until
from lab.environment.state import ALIASES, Lab, drill_port
from lab.environment.take_down import down
from lab.rehearsal.run import run_dag
from tests.support.lab_clients import SECONDS, client, new_topic, reader, refusals, takes_only_tls
from tests.support.rehearsals import keep_files

GIB = 1024**3
MOST_MEMORY = 12 * GIB
RESTART_SECONDS = 120.0
NODES = (1, 2, 3)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A lab with Airflow, under a folder that only root may enter."""
    state = tmp_path_factory.mktemp("production") / "lab"
    try:
        up(state, profile="production")
        yield Lab(state)
    finally:
        if request.session.testsfailed:
            keep_files(state, state.with_name("kept"))
        down(state)


def _processes(lab: Lab) -> list[psutil.Process]:
    """All processes of the lab, with PostgreSQL's own, which are in sessions of theirs."""
    pids = {*lab.processes.members(), *psutil.Process(lab.processes.pid("postgres")).children(recursive=True)}
    return [one if isinstance(one, psutil.Process) else psutil.Process(one) for one in pids]


def _resident(lab: Lab) -> int:
    """Bytes that all processes hold in memory; what several of them share counts for each."""
    total = 0
    for process in _processes(lab):
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def _ports(lab: Lab) -> dict[str, list[int]]:
    """The ports of a site's listeners, by kind."""
    ports = lab.load().ports
    names: dict[str, list[str]] = {"clients": [], "certificates": [], "controller": [], "connect": []}
    for alias in ALIASES:
        names["clients"] += [member_name(alias, node) for node in NODES]
        names["certificates"] += [certificates_port(alias, node) for node in NODES]
        names["controller"] += [f"controller_{alias}"]
        names["connect"] += [f"connect_{member_name(alias, number)}" for number in (1, 2)] + [drill_port(alias)]
    return {kind: [ports[name] for name in found] for kind, found in names.items()}


def _shake_hands(port: int, context: ssl.SSLContext) -> str:
    """Return how a TLS connection went: `open` if the server still keeps it a moment after the handshake."""
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped,
        ):
            wrapped.settimeout(1.0)
            return "open" if wrapped.recv(1) else "closed"
    except TimeoutError:
        return "open"
    except (ssl.SSLError, OSError) as error:
        return type(error).__name__


def test_no_listener_takes_a_connection_without_tls(lab: Lab) -> None:
    """Every port on which a JVM of the lab listens is known, on this machine only, and takes no plain connection."""
    known = {port for ports in _ports(lab).values() for port in ports}
    names = [path.stem for path in (lab.home / "processes").glob("*.json")]
    java = [name for name in names if name.startswith(("broker-", "controller-", "connect-", "drill-"))]
    assert len(java) == 14
    for name in java:
        listening = psutil.Process(lab.processes.pid(name)).net_connections("tcp")
        addresses = [one.laddr for one in listening if one.status == psutil.CONN_LISTEN]
        assert addresses and {address.port for address in addresses} <= known
        assert {address.ip for address in addresses} <= {"127.0.0.1", "::ffff:127.0.0.1"}
    for port in known:
        assert takes_only_tls(port), port


def test_certificates_are_of_the_labs_ca(lab: Lab) -> None:
    """Trusted with the CA alone; the listeners for certificates and the controllers' ask for one."""
    trusting = ssl.create_default_context(cafile=str(lab.authority.certificate))
    known = ssl.create_default_context(cafile=str(lab.authority.certificate))
    files = lab.authority.files_of("cert-producer")
    known.load_cert_chain(files.certificate, files.key)
    for kind, ports in _ports(lab).items():
        for port in ports:
            assert _shake_hands(port, ssl.create_default_context()) == "SSLCertVerificationError", (kind, port)
            asks = kind in ("certificates", "controller")
            assert (_shake_hands(port, trusting) == "open") is not asks, (kind, port)
            assert _shake_hands(port, known) == "open", (kind, port)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "SSL"])
def test_clients_need_tls_and_a_login(lab: Lab, protocol: str) -> None:
    """On the clients' listener neither TLS alone nor a login alone is enough."""
    for alias in ALIASES:
        settings = client(lab, alias, "admin") | {"security.protocol": protocol, "socket.timeout.ms": 3000}
        with pytest.raises(KafkaException):
            AdminClient(settings).list_topics(timeout=5)
    url = lab.connect_url("primary")
    with pytest.raises(requests.ConnectionError):
        requests.get(url.replace("https", "http"), timeout=5)
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(url, timeout=5)


def test_everything_has_three_replicas(lab: Lab) -> None:
    """Also the topics of groups, transactions, Connect and MirrorMaker 2, on both clusters."""
    for alias in ALIASES:
        producer = Producer({**client(lab, alias, "admin"), "transactional.id": "production-test"})
        producer.init_transactions(30)
        admin = AdminClient(client(lab, alias, "admin"))
        topics = admin.list_topics(timeout=20).topics
        found = {name: {len(one.replicas) for one in topic.partitions.values()} for name, topic in topics.items()}
        assert {"__transaction_state", "__consumer_offsets", f"__connect_{alias}_configs", MARKER} <= set(found)
        assert {name: count for name, count in found.items() if count != {3}} == {}
        assert any("offset-syncs" in name for name in found) or alias == "primary"
        requests_of_configs = [[ConfigResource(ResourceType.BROKER, str(node))] for node in NODES]
        requests_of_configs += [[ConfigResource(ResourceType.TOPIC, name) for name in topics]]
        for resources in requests_of_configs:
            for resource, future in admin.describe_configs(resources, request_timeout=30).items():
                assert future.result()["min.insync.replicas"].value == "2", resource


def test_a_record_arrives_from_each_kind_of_client(lab: Lab) -> None:
    """By SCRAM and by certificate; on the standby both are refused."""
    topic = new_topic(lab, "primary")
    for principal in ("producer", "cert-producer"):
        told: list[Any] = []
        producer = Producer({**client(lab, "primary", principal), "message.timeout.ms": 30_000})
        producer.produce(topic, value=principal.encode(), on_delivery=lambda error, _, told=told: told.append(error))
        producer.flush(40)
        assert told == [None], (principal, told)
    watcher = AdminClient(client(lab, "standby", "admin"))
    wait_until(lambda: watcher.list_topics(topic, timeout=5).topics[topic].error is None, "the topic", SECONDS)
    consumer, seen = reader(lab, "consumer", [TopicPartition(topic, partition, 0) for partition in range(3)]), set()

    def _all_read() -> bool:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            seen.add(message.value())
        return seen == {b"producer", b"cert-producer"}

    wait_until(_all_read, "both records on standby", SECONDS, pause=0.0)
    consumer.close()
    assert refusals(lab, "standby", topic) == ["TOPIC_AUTHORIZATION_FAILED"]
    refused: list[Any] = []
    stranger = Producer({**client(lab, "standby", "cert-producer"), "message.timeout.ms": 20_000})
    stranger.produce(topic, value=b"v", on_delivery=lambda error, _: refused.append(error.name() if error else ""))
    stranger.flush(30)
    assert refused == ["TOPIC_AUTHORIZATION_FAILED"]


def test_all_of_it_fits_into_twelve_gib(lab: Lab) -> None:
    """What all processes hold resident, shared pages counted for each."""
    resident = _resident(lab)
    print(f"{len(_processes(lab))} processes, {resident / GIB:.2f} GiB resident")
    assert resident <= MOST_MEMORY


def test_airflows_scheduler_is_started_again(lab: Lab) -> None:
    """After kill -9, without `up`, and a task runs."""
    for component in ("scheduler", "triggerer"):
        name = f"airflow-{component}"
        killed = lab.processes.pid(name)
        os.kill(killed, signal.SIGKILL)
        wait_until(partial(_runs_anew, lab, name, killed), f"another {name}", RESTART_SECONDS)
    assert run_dag(lab, "lab_warm_up", {}, timeout=300) == 0


def _runs_anew(lab: Lab, name: str, killed: int) -> bool:
    return lab.processes.pid(name) not in (None, killed)


def _pids(lab: Lab, alias: str) -> dict[str, Any]:
    return lab.status()["clusters"][alias]["pids"]


def test_what_was_killed_is_started_again_by_up(lab: Lab) -> None:
    """A broker, two workers, the controller of the other site, PostgreSQL, the supervisor; all else keeps running."""
    before = {alias: _pids(lab, alias) for alias in ALIASES}
    worker = lab.connect_urls("standby")[1]
    killed = [
        before["primary"]["brokers"]["2"],
        before["standby"]["workers"][worker],
        before["primary"]["drill"],
        before["standby"]["controllers"]["100"],
        before["primary"]["postgres"],
        lab.processes.pid("airflow-supervisor"),
    ]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not [pid for pid in killed if psutil.pid_exists(pid) and _runs(pid)], "their ends", SECONDS)
    assert _pids(lab, "primary")["brokers"]["2"] is None
    assert refusals(lab, "primary", "lab-readiness") == []
    up(lab.root)
    after = {alias: _pids(lab, alias) for alias in ALIASES}
    for alias in ALIASES:
        for kind in ("brokers", "controllers", "workers"):
            for name, pid in after[alias][kind].items():
                assert pid is not None and (pid == before[alias][kind][name]) is (
                    before[alias][kind][name] not in killed
                )
    assert after["standby"]["drill"] == before["standby"]["drill"] is not None
    for name in ("postgres", "drill"):
        assert after["primary"][name] not in (None, before["primary"][name])
    wait_until(partial(_mirrors, lab, 2), "the worker that was killed to know that the flow runs", SECONDS)


def _mirrors(lab: Lab, number: int) -> bool:
    path = "/connectors/primary-to-standby-source/status"
    return call_worker(lab, "standby", "GET", path, number=number).json()["connector"]["state"] == "RUNNING"


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_each_worker_passes_requests_on(lab: Lab) -> None:
    """Whichever of the two is asked: one of them is not the leader of its group."""
    for alias, flow in (("standby", "primary-to-standby"), ("primary", "standby-to-primary")):
        path = f"/connectors/{flow}-heartbeat/config"
        for number in (1, 2):
            config = call_worker(lab, alias, "GET", path, number=number).json()
            # A write that changes nothing; only the leader takes writes.
            wait_until(
                partial(_accepted, lab, alias, path, config, number),
                f"worker {number} of {alias} to pass it on",
                SECONDS,
            )


def _accepted(lab: Lab, alias: str, path: str, config: dict[str, str], number: int) -> bool:
    return call_worker(lab, alias, "PUT", path, config, number=number).ok


def test_another_profile_is_refused_by_name(lab: Lab) -> None:
    """And changes nothing."""
    before = _pids(lab, "primary")
    with pytest.raises(Exception, match="created with profile: production, not small"):
        up(lab.root, profile="small")
    assert _pids(lab, "primary") == before


def test_a_planned_failover_completes(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """With records and a group; clients can write on the standby afterwards, by login and by certificate."""
    topic = new_topic(lab, "primary")
    assert refusals(lab, "primary", topic) == []
    consumer = Consumer(
        {**client(lab, "primary", "consumer"), "group.id": "billing", "isolation.level": "read_committed"}
    )
    consumer.commit(offsets=[TopicPartition(topic, partition, 0) for partition in range(3)], asynchronous=False)
    consumer.close()
    conf = {"source": "primary", "target": "standby", "reason": "a test of profile production"}
    code = run_dag(lab, "planned_failover", conf, approve_as="approver", timeout=1200)
    text = capsys.readouterr().out
    print(text, f"{_resident(lab) / GIB:.2f} GiB resident afterwards")
    assert code == 0, text.splitlines()[-1]
    (evidence,) = [json.loads(path.read_text()) for path in lab.evidence.glob("planned_failover*/evidence.json")]
    assert evidence["outcome"] == "completed"
    for principal in ("producer", "cert-producer"):
        written: list[Any] = []
        producer = Producer({**client(lab, "standby", principal), "message.timeout.ms": 30_000})
        producer.produce(topic, value=b"v", on_delivery=lambda error, _, written=written: written.append(error))
        producer.flush(40)
        assert written == [None], (principal, written)


def test_down_leaves_nothing_also_after_a_crash(lab: Lab, request: pytest.FixtureRequest) -> None:
    """With the supervisor and a broker killed, and a worker's record gone: nothing runs, and evidence stays."""
    if request.session.testsfailed:
        keep_files(lab.root, lab.root.with_name("kept"))
    processes = _processes(lab)
    for name in ("airflow-supervisor", "broker-standby-3"):
        os.kill(lab.processes.pid(name), signal.SIGKILL)
    (lab.home / "processes" / "connect-primary-2.json").unlink()
    down(lab.root)
    time.sleep(1.0)
    assert [process for process in processes if _runs(process.pid)] == []
    assert [path.name for path in Path(lab.root).iterdir()] == ["evidence"]
