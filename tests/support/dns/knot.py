"""A zone on real Knot servers: a primary and two secondaries, on addresses of their own on the loopback interface."""

from __future__ import annotations

import base64
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dns.message
import dns.query
import dns.rdatatype

from lab.environment.ports import free_ports
from tests.support.postgresql import die_with_parent

ZONE, NAME = "site.example.", "kafka.site.example."
ADDRESSES = {"ns1": "127.153.0.1", "ns2": "127.153.0.2", "ns3": "127.153.0.3"}
KEY, SECRET = "switchback-key.", base64.b64encode(b"only for this test, and for no other one").decode()
ANSWERS = {"primary": "in-east.site.example.", "standby": "in-west.site.example."}
RECORDS = f"""$ORIGIN {ZONE}
@ 30 SOA ns1 admin 1 3600 600 86400 30
@ 30 NS ns1
@ 30 NS ns2
@ 30 NS ns3
ns1 30 A {ADDRESSES["ns1"]}
ns2 30 A {ADDRESSES["ns2"]}
ns3 30 A {ADDRESSES["ns3"]}
in-east 30 A 127.153.1.1
in-west 30 A 127.153.1.2
kafka 20 CNAME in-east
"""
COMMON = """server:
  rundir: {folder}
  listen: {address}@{port}
database:
  storage: {folder}/db
control:
  listen: {folder}/knot.sock
log:
  - target: stderr
    any: info
"""
PRIMARY = """key:
  - id: {key}
    algorithm: hmac-sha256
    secret: {secret}
  - id: reader-key.
    algorithm: hmac-sha256
    secret: {secret}
  - id: half-key.
    algorithm: hmac-sha256
    secret: {secret}
remote:
  - id: ns2
    address: {ns2}@{port}
  - id: ns3
    address: {ns3}@{port}
acl:
  - id: redirect
    key: {key}
    action: update
    update-owner: name
    update-owner-match: equal
    update-owner-name: [kafka, _switchback.kafka]
  - id: transfer
    address: 127.0.0.0/8
    action: transfer
  - id: read
    key: reader-key.
    action: transfer
  - id: half
    key: half-key.
    action: update
    update-owner: name
    update-owner-match: equal
    update-owner-name: kafka
zone:
  - domain: {zone}
    file: {folder}/zone
    zonefile-sync: 0
    journal-content: all
    notify: [ns2, ns3]
    acl: [redirect, transfer, read, half]
"""
SECONDARY = """remote:
  - id: ns1
    address: {ns1}@{port}
acl:
  - id: notify
    address: 127.0.0.0/8
    action: notify
zone:
  - domain: {zone}
    master: ns1
    acl: [notify]
    zonefile-sync: -1
"""


class KnotServer:
    """One server; it ends with this process."""

    def __init__(self, folder: Path, name: str, port: int) -> None:
        self.folder, self.name, self.address, self.port = folder / name, name, ADDRESSES[name], port
        (self.folder / "db").mkdir(parents=True)
        text = COMMON + (PRIMARY if name == "ns1" else SECONDARY)
        values = {"folder": self.folder, "address": self.address, "port": port, "zone": ZONE, **ADDRESSES}
        (self.folder / "knot.conf").write_text(text.format(**values, key=KEY, secret=SECRET))
        (self.folder / "zone").write_text(RECORDS)
        self.start()

    def start(self) -> None:
        """Start the server on what it has on disk."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["/usr/sbin/knotd", "-c", str(self.folder / "knot.conf")],
                stdout=log, stderr=log, preexec_fn=die_with_parent,
            )  # fmt: skip

    def stop(self) -> None:
        """Kill the server."""
        self._process.kill()
        self._process.wait()

    def control(self, *command: str) -> None:
        """Send a command of knotc."""
        asked = ["/usr/sbin/knotc", "-c", str(self.folder / "knot.conf"), *command]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{asked}: {done.stdout}{done.stderr}"

    @contextmanager
    def behind(self) -> Iterator[None]:
        """Let the server transfer nothing during the block."""
        self.control("zone-freeze", ZONE)
        try:
            yield
        finally:
            self.control("zone-thaw", ZONE)

    def ask(self, name: str, kind: str) -> list[str]:
        """Return the data of the name's own records, as the server answers over UDP."""
        question = dns.message.make_query(name, kind)
        answer = dns.query.udp(question, self.address, timeout=2.0, port=self.port)
        return [one.to_text() for rrset in answer.answer if rrset.name.to_text() == name for one in rrset]

    def serial(self) -> int:
        """Return the serial number of the zone."""
        return int(self.ask(ZONE, "SOA")[0].split()[2])


class KnotSite:
    """The zone's three servers."""

    def __init__(self, folder: Path) -> None:
        self.port = free_ports(["dns"])["dns"]
        self.servers = {name: KnotServer(folder, name, self.port) for name in ADDRESSES}
        for server in self.servers.values():
            eventually(lambda one=server: one.ask(NAME, "CNAME") == [ANSWERS["primary"]], f"{server.name} answers")

    def stop(self) -> None:
        """End all servers."""
        for server in self.servers.values():
            server.stop()


def eventually(reached: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    """Wait for something that a server does on its own; no answer counts as not yet."""
    ends_at = time.monotonic() + seconds
    while True:
        try:
            if reached():
                return
        except (OSError, dns.exception.DNSException):
            pass
        assert time.monotonic() < ends_at, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.05)
