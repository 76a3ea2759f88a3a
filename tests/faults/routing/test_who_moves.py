"""Who follows a shared DNS name to the other cluster by itself, and who must be restarted: real clients, two brokers.

Clients run unchanged while the name is redirected: once with the former cluster answering on, once after its end.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_dr.config.routing import DnsRoutingSettings
from kafka_dr.hooks.site.dns_routing import DnsRouting
from kafka_dr.hooks.site.dns_servers import DnsLogin
from kafka_dr.hooks.site.routing import ClientRoute

from lab.environment.bring_up import make_record
from lab.environment.brokers import admin_client, start_broker
from lab.environment.jvm import java_program, properties_text
from lab.environment.logins.clients import java_login, java_settings
from lab.environment.ports import free_ports
from lab.environment.progress import ProgressLines
from lab.environment.state import ALIASES, Lab, write_private
from lab.environment.take_down import down
from lab.environment.versions.releases import NEWEST
from lab.environment.versions.version_jars import fetch_versions, version_folder
from lab.install.jars import ready_jars
from lab.install.java_compiler import compile_java
from lab.install.setup import dns_programs, find_compiler
from tests.support.dns.knot import ANSWERS, KEY, NAME, SECRET, ZONE, KnotSite
from tests.support.dns.resolver import Resolver


def may_mount() -> bool:
    """Whether a process may have a /etc/resolv.conf of its own."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.skipif(not dns_programs(), reason="Debian's packages knot and unbound are not installed"),
    pytest.mark.skipif(find_compiler() is None, reason="no Java compiler is installed"),
    pytest.mark.skipif(not may_mount(), reason="only root, with the right to mount, can give clients a resolver"),
]

SOURCE, TARGET = ALIASES
HOSTS = {"primary": "127.153.1.1", "standby": "127.153.1.2"}
RESOLVER = "127.153.0.53"
READ, WRITTEN, USER = "news", "written", "admin"
#: A topic's first records: a position of the source lies within the target's log, too.
FIRST_RECORDS = {SOURCE: 2000, TARGET: 5000}
#: Where the groups' committed positions on the target are.
COMMITTED = 7
#: Longer than the zone's TTL, a redirect's TTL, and the time for which a JVM keeps a name.
WATCHED_SECONDS = 60.0
START_SECONDS, MOVE_SECONDS, LOSS_SECONDS = 180.0, 150.0, 5.0
REBOOTSTRAP = {"metadata.recovery.strategy": "rebootstrap"}


@dataclass(frozen=True)
class Kind:
    """One kind of client.

    Attributes:
        version: of the Java client; "" for librdkafka.
        moves: whether it moves by itself once no broker that it knows answers.
        settings: that are not the client's defaults.
    """

    version: str
    moves: bool
    settings: tuple[tuple[str, str], ...] = ()


KINDS = {
    "java-3.7.2": Kind("3.7.2", moves=False),
    "java-3.9.2": Kind("3.9.2", moves=False),
    "java-3.9.2-rebootstrap": Kind("3.9.2", True, tuple(REBOOTSTRAP.items())),
    f"java-{NEWEST}": Kind(NEWEST, moves=True),
    "librdkafka": Kind("", moves=True),
}


def jars_of(version: str) -> str:
    """Return the class path of a version's clients."""
    if version == "3.9.2":
        folder = ready_jars()
        assert folder is not None
        return f"{folder}/spark/kafka-clients-3.9.2.jar:{next((folder / 'kafka').glob('slf4j-api-*.jar'))}"
    if version != NEWEST:
        fetch_versions({"kafka": {SOURCE: version}}, ProgressLines())
    return f"{version_folder(version)}/*"


class TwoBrokers:
    """Two clusters whose brokers advertise their own addresses, with the same port, as a shared name demands."""

    def __init__(self, folder: Path) -> None:
        self.lab = Lab(folder / "lab")
        ports = free_ports(["clients", *(f"controller_{alias}" for alias in ALIASES)])
        shared = dict.fromkeys(ALIASES, ports["clients"])
        self.lab.save(make_record("identity", "read_uncommitted", {**ports, **shared}, hosts=HOSTS))
        self.port, self._ending = ports["clients"], threading.Event()
        self.admins: dict[str, AdminClient] = {}
        self.events: list[tuple[float, str, str, str]] = []
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start both, with topics, and with records that name their cluster."""
        for alias in ALIASES:
            start_broker(self.lab, alias)
            self.admins[alias] = admin_client(self.lab, alias)
            made = self.admins[alias].create_topics([NewTopic(READ, 1, 1), NewTopic(WRITTEN, 1, 1)])
            for topic in made.values():
                topic.result(60)
            self._run(self._tell, alias)
            self._run(self._listen, alias)

    def commit(self, group: str) -> None:
        """Commit a group's position on the target, as a procedure does."""
        place = ConsumerGroupTopicPartitions(group, [TopicPartition(READ, 0, COMMITTED)])
        self.admins[TARGET].alter_consumer_group_offsets([place])[group].result(60)

    def kill_source(self) -> None:
        """Kill the source's only broker."""
        pid = self.lab.processes.pid(f"broker-{SOURCE}")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """End all."""
        self._ending.set()
        for thread in self._threads:
            thread.join(30)
        down(self.lab.root)

    def _run(self, work: Callable[[str], None], alias: str) -> None:
        self._threads.append(threading.Thread(target=work, args=(alias,), daemon=True))
        self._threads[-1].start()

    def _tell(self, alias: str) -> None:
        """Write the cluster's name, which clients print."""
        producer = Producer({**self.lab.client_properties(alias, USER), "log_level": 0})
        for _ in range(FIRST_RECORDS[alias]):
            producer.produce(READ, alias)
        while not self._ending.wait(0.2):
            with suppress(BufferError):
                producer.produce(READ, alias)
            producer.poll(0)

    def _listen(self, alias: str) -> None:
        """Note whose records arrive."""
        settings = {**self.lab.client_properties(alias, USER), "log_level": 0, "group.id": "listener"}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        consumer.assign([TopicPartition(WRITTEN, 0, 0)])
        while not self._ending.is_set():
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                self.events.append((time.monotonic(), (message.value() or b"").decode(), "writes", alias))
        consumer.close()


class NamedClient:
    """One client, whose bootstrap server is the shared name and whose resolver is the test's.

    Attributes:
        runs: by cluster, the offsets that the client read there, as [first, last] of each run without a jump.
    """

    def __init__(self, brokers: TwoBrokers, resolv_conf: Path, name: str) -> None:
        self.brokers, self.name, self._resolv_conf = brokers, name, resolv_conf
        self._folder = resolv_conf.parent
        self._group = f"{name}-{self._folder.name}"
        self.runs: dict[str, list[list[int]]] = {alias: [] for alias in ALIASES}
        brokers.commit(self._group)
        self.start()

    def start(self) -> None:
        """Start the program, with a mount namespace of its own."""
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._program = subprocess.Popen(
                ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"',
                 str(self._resolv_conf), *self._command(), READ, WRITTEN, self.name],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        threading.Thread(target=self._note, args=(self._program,), daemon=True).start()

    def stop(self) -> None:
        """End the program."""
        self._program.kill()
        self._program.communicate()

    def restart(self) -> None:
        """Restart it as an operator does; nothing about it changes."""
        self.stop()
        self.start()

    def moved_after(self, since: float) -> dict[str, float | None]:
        """Return after how many seconds the client first read and wrote on the target; None: not yet."""
        events = [one for one in list(self.brokers.events) if one[1] == self.name and one[3] == TARGET]
        return {
            role: next((round(at - since, 1) for at, _, done, _ in events if done == role and at >= since), None)
            for role in ("reads", "writes")
        }

    def at_work(self, alias: str, since: float) -> bool:
        """Whether it has read and written on a cluster since then."""
        events = list(self.brokers.events)
        return {role for at, name, role, where in events if (name, where) == (self.name, alias) and at > since} == {
            "reads",
            "writes",
        }

    def _note(self, program: subprocess.Popen[str]) -> None:
        assert program.stdout is not None
        for line in program.stdout:
            words = line.split()
            if len(words) != 2 or words[0] not in self.runs or not words[1].isdigit():
                continue  # What the client's library says of its connections.
            alias, offset = words[0], int(words[1])
            if self.runs[alias] and self.runs[alias][-1][1] + 1 == offset:
                self.runs[alias][-1][1] = offset
            else:
                self.runs[alias].append([offset, offset])
            self.brokers.events.append((time.monotonic(), self.name, "reads", alias))

    def _command(self) -> list[str]:
        """Write the settings; return the command of the program, without its arguments."""
        kind, lab = KINDS[self.name], self.brokers.lab
        common = {
            "bootstrap.servers": f"{NAME.rstrip('.')}:{self.brokers.port}",
            "group.id": self._group,
            "auto.offset.reset": "earliest",
            **dict(kind.settings),
        }
        file = self._folder / f"{self.name}.settings"
        if not kind.version:
            login = lab.client_properties(SOURCE, USER)
            write_private(file, json.dumps({**login, **common}))
            return [sys.executable, str(Path(__file__).with_name("named_client.py")), str(file)]
        record = lab.load()
        login = java_settings(record, lab.authority, SOURCE, USER)
        login["sasl.jaas.config"] = java_login(record, lab.authority, SOURCE, USER)
        write_private(file, properties_text({**login, **common}))
        jars, source = jars_of(kind.version), Path(__file__).with_name("NamedClient.java")
        classes = compile_java([source], jars)
        limits = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        return [java_program(), *limits, "-cp", f"{jars}:{classes}", "NamedClient", str(file)]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBrokers]:
    """Two clusters; the second case kills the first of them."""
    made = TwoBrokers(tmp_path_factory.mktemp("brokers"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[KnotSite]:
    """The zone, whose shared name leads to the source."""
    made = KnotSite(tmp_path / "knot")
    yield made
    made.stop()


@pytest.fixture
def resolver(site: KnotSite, tmp_path: Path) -> Iterator[Resolver]:
    """The clients' resolver, on the one port that resolv.conf allows."""
    made = Resolver(tmp_path / "resolver", site, RESOLVER, 53)
    yield made
    made.stop()


@pytest.fixture
def clients(brokers: TwoBrokers, resolver: Resolver, tmp_path: Path) -> Iterator[list[NamedClient]]:
    """One client of each kind, at work on the source, to which the name leads."""
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text(f"nameserver {resolver.address}\n")
    began = time.monotonic()
    made: list[NamedClient] = []
    try:
        made += (NamedClient(brokers, resolv_conf, name) for name in KINDS)
        await_all(lambda: still_away(made, SOURCE, began), "at work on the source")
        yield made
    finally:
        for one in made:
            one.stop()


def still_away(clients: list[NamedClient], alias: str, since: float) -> list[str]:
    """Return the names of clients that have not both read and written on a cluster since then."""
    return [one.name for one in clients if not one.at_work(alias, since)]


def await_all(missing: Callable[[], list[str]], what: str, seconds: float = START_SECONDS) -> None:
    """Wait until nothing is missing."""
    ends_at = time.monotonic() + seconds
    while late := missing():
        assert time.monotonic() < ends_at, f"not within {seconds:.0f} s {what}: {late}"
        time.sleep(0.5)


def redirect(site: KnotSite, resolver: Resolver) -> float:
    """Lead the name to the target by the product; return when the clients' resolver gives the new answer."""
    settings = DnsRoutingSettings(kind="dns", connection="zone", zone=ZONE, name=NAME, answers=ANSWERS, ttl_seconds=2)
    routing = DnsRouting(DnsLogin(site.servers["ns1"].address, site.port, KEY, SECRET), settings)
    routing.redirect(ClientRoute(TARGET, "west:9092"))
    await_all(lambda: [] if resolver.ask(NAME) == [HOSTS[TARGET]] else [NAME], "in the resolver")
    return time.monotonic()


def restart_all(clients: list[NamedClient]) -> None:
    """Restart clients at once; assert that each works on the target afterwards."""
    began = time.monotonic()
    with ThreadPoolExecutor() as pool:
        list(pool.map(NamedClient.restart, clients))
    await_all(lambda: still_away(clients, TARGET, began), "at work on the target")


def test_while_the_former_cluster_answers_nobody_moves(
    clients: list[NamedClient], site: KnotSite, resolver: Resolver
) -> None:
    """As after a planned failover: every client goes on there, whatever its kind, until it is restarted."""
    led = redirect(site, resolver)
    time.sleep(WATCHED_SECONDS)
    for one in clients:
        print(f"\n{one.name}: moved {one.moved_after(led)} in {WATCHED_SECONDS:.0f} s", end="", flush=True)
    assert not [one.name for one in clients if set(one.moved_after(led).values()) != {None}]
    now = time.monotonic()
    await_all(lambda: still_away(clients, SOURCE, now), "still at work on the source", 30.0)
    restart_all(clients)
    assert {one.name: one.runs[TARGET][0][0] for one in clients} == dict.fromkeys(KINDS, COMMITTED)


def test_after_a_loss_those_move_that_begin_anew(
    brokers: TwoBrokers, clients: list[NamedClient], site: KnotSite, resolver: Resolver
) -> None:
    """As after an unplanned failover: some look the name up again; a restart leads every client to the target."""
    lost = time.monotonic()
    brokers.kill_source()
    time.sleep(LOSS_SECONDS)
    led = redirect(site, resolver)
    movers, stayed = ([one for one in clients if KINDS[one.name].moves is moves] for moves in (True, False))
    with suppress(AssertionError):
        await_all(lambda: still_away(movers, TARGET, lost), "moved", MOVE_SECONDS)
    time.sleep(max(0.0, led + WATCHED_SECONDS - time.monotonic()))
    print(f"\nseconds after the loss: the resolver's new answer {led - lost:.1f}", flush=True)
    for one in clients:
        print(f"{one.name}: moved {one.moved_after(lost)}, offsets read {one.runs}", flush=True)
    for one in clients:
        moved = {at is not None for at in one.moved_after(lost).values()}
        assert moved == {KINDS[one.name].moves}, f"{one.name}: {one.moved_after(lost)}"
    restart_all(stayed)
    assert [one.name for one in stayed if one.runs[TARGET][0][0] != COMMITTED] == []
    for one in movers:
        one.runs[TARGET].clear()
    restart_all(movers)
    print({one.name: one.runs[TARGET] for one in clients}, flush=True)
