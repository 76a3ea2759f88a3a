"""A redirect by DNS on real servers: what resolvers answer, who lags, and what a wrong key or another change does."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.config.routing import DnsRoutingSettings
from kafka_dr.domain.manual.nsupdate import nsupdate_script
from kafka_dr.errors import Contradiction, HookUnavailable
from kafka_dr.hooks.site.dns_routing import DnsRouting
from kafka_dr.hooks.site.dns_servers import DnsLogin
from kafka_dr.hooks.site.routing import ClientRoute

from lab.environment.ports import free_ports
from lab.install.setup import dns_programs
from tests.support.dns.knot import ANSWERS, KEY, NAME, SECRET, ZONE, KnotSite, eventually
from tests.support.dns.resolver import Resolver

pytestmark = pytest.mark.skipif(not dns_programs(), reason="Debian's packages knot and unbound are not installed")

EAST, WEST = "127.153.1.1", "127.153.1.2"
TO_EAST, TO_WEST = ClientRoute("primary", "east:9092"), ClientRoute("standby", "west:9092")
#: What the zone's file states, and what a redirect writes.
FORMER_TTL, TTL = 20, 2


@pytest.fixture
def site(tmp_path: Path) -> Iterator[KnotSite]:
    """A primary and two secondaries; the name leads to the primary cluster."""
    made = KnotSite(tmp_path / "knot")
    yield made
    made.stop()


@pytest.fixture
def resolver(site: KnotSite, tmp_path: Path) -> Iterator[Callable[..., Resolver]]:
    """Starts resolvers, which keep answers as long as these may be kept."""
    made: list[Resolver] = []

    def start(only: str | None = None) -> Resolver:
        folder, port = tmp_path / f"resolver-{len(made)}", free_ports(["resolver"])["resolver"]
        made.append(Resolver(folder, site, "127.153.0.10", port, site.servers[only] if only else None))
        return made[-1]

    yield start
    for one in made:
        one.stop()


def routing(site: KnotSite, key: str = KEY, secret: str = SECRET) -> DnsRouting:
    """Switchback's client of the zone; its servers are those of the NS records."""
    settings = DnsRoutingSettings(kind="dns", connection="zone", zone=ZONE, name=NAME, answers=ANSWERS, ttl_seconds=TTL)
    return DnsRouting(DnsLogin(site.servers["ns1"].address, site.port, key, secret), settings)


def test_resolvers_give_the_former_answer_for_its_ttl_and_then_the_new_one(site: KnotSite, resolver: Any) -> None:
    """A resolver that has the answer keeps it; one that has not gets the new one; there and back."""
    routing(site).redirect(TO_WEST)
    routing(site).redirect(TO_EAST)
    knows = resolver()
    eventually(lambda: knows.ask(NAME) == [EAST], "the answer is in the resolver")
    began = time.monotonic()
    done = routing(site).redirect(TO_WEST)
    assert "3 of 3 authoritative servers" in done.answered and f"former answer for {TTL} s" in done.answered
    assert {server.ask(NAME, "CNAME")[0] for server in site.servers.values()} == {ANSWERS["standby"]}
    assert resolver().ask(NAME) == [WEST]
    if time.monotonic() - began < TTL - 1:
        assert knows.ask(NAME) == [EAST], "the resolver keeps what it may keep"
    eventually(lambda: knows.ask(NAME) == [WEST], "the new answer", FORMER_TTL)


def test_a_standing_ttl_is_kept_by_resolvers(site: KnotSite, resolver: Any) -> None:
    """The TTL from before the first redirect counts: nobody can lower it afterwards."""
    knows = resolver()
    assert knows.ask(NAME) == [EAST]
    assert routing(site).view(5.0).servers[0].ttl == FORMER_TTL
    assert f"former answer for {FORMER_TTL} s" in routing(site).redirect(TO_WEST).answered
    time.sleep(2 * TTL)
    assert knows.ask(NAME) == [EAST] and resolver().ask(NAME) == [WEST]
    eventually(lambda: knows.ask(NAME) == [WEST], "the new answer", FORMER_TTL)


def test_a_server_that_lags_is_named_until_it_has_the_zone(site: KnotSite, resolver: Any) -> None:
    """Its resolver's clients are still led to the former cluster; the second try finds it, and writes nothing."""
    late = site.servers["ns3"]
    routing(site).redirect(TO_WEST)
    routing(site).redirect(TO_EAST)
    eventually(lambda: late.serial() == site.servers["ns1"].serial(), "the transfer")
    with late.behind():
        with pytest.raises(HookUnavailable, match="lag behind the redirect") as lag:
            routing(site).redirect(TO_WEST, timeout=1.5)
        assert late.address in str(lag.value) and site.servers["ns2"].address not in str(lag.value)
        assert lag.value.may_pass and f"serial {late.serial()}" in str(lag.value)
        assert resolver("ns3").ask(NAME) == [EAST] and resolver("ns2").ask(NAME) == [WEST]
        written = site.servers["ns1"].serial()
    done = routing(site).redirect(TO_WEST)
    assert not done.changed and "3 of 3" in done.answered and site.servers["ns1"].serial() == written


def test_a_dead_server_is_named_and_stops_nothing(site: KnotSite) -> None:
    """As one in a lost site would be; the primary is another matter."""
    site.servers["ns2"].stop()
    assert f"{site.servers['ns2'].address}:{site.port}): no answer" in routing(site).redirect(TO_WEST).answered
    site.servers["ns1"].stop()
    with pytest.raises(HookUnavailable, match="no usable answer"):
        routing(site).redirect(TO_EAST)
    assert site.servers["ns3"].ask(NAME, "CNAME") == [ANSWERS["standby"]]


@pytest.mark.parametrize(
    ("key", "secret", "told"),
    [
        (KEY, base64.b64encode(b"another secret").decode(), "PeerBadSignature"),
        ("unknown-key.", SECRET, "PeerBadKey"),
        ("reader-key.", SECRET, "PeerBadKey"),
        ("half-key.", SECRET, "NOTAUTH|REFUSED|PeerBadKey"),
    ],
)
def test_a_wrong_key_is_refused_without_showing_it(site: KnotSite, key: str, secret: str, told: str) -> None:
    """An unknown key, another secret, a key that may only read, and one that may not write the routing record."""
    with pytest.raises(HookUnavailable, match=told) as refused:
        routing(site, key, secret).redirect(TO_WEST)
    view = routing(site, key, secret).view(5.0)
    assert view.refused and secret not in f"{refused.value}{view}"
    assert site.servers["ns1"].serial() == 1


def test_a_look_at_the_name_leaves_the_zone_as_it_is(site: KnotSite) -> None:
    """The update that readiness tries is taken, and makes no new serial number: before and after a redirect."""
    for _ in range(2):
        before = site.servers["ns1"].serial()
        view = routing(site).view(5.0)
        assert view.refused == "" and len(view.servers) == 3 and not view.silent
        assert site.servers["ns1"].serial() == before
        routing(site).redirect(TO_WEST)


def test_of_two_redirects_at_once_one_is_made(site: KnotSite) -> None:
    """Both read the same; the other one's prerequisites no longer hold. It says so, and has changed nothing."""
    for _ in range(5):
        answers: list[Any] = []
        gate = threading.Barrier(2)

        def act(route: ClientRoute, answers: list[Any] = answers, gate: threading.Barrier = gate) -> None:
            made = routing(site)
            send = made._servers.send
            made._servers.send = lambda *args: (gate.wait(10), send(*args))[1]
            try:
                answers.append((route, made.redirect(route).changed))
            except (Contradiction, HookUnavailable) as error:
                answers.append((route, error))

        routing(site).redirect(ClientRoute("primary", "begin:9092"))
        others = [ClientRoute("standby", "west:9092"), ClientRoute("standby", "other:9092")]
        threads = [threading.Thread(target=act, args=(route,)) for route in others]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (won,) = [route for route, answer in answers if answer is True]
        (lost,) = [answer for _, answer in answers if answer is not True]
        assert isinstance(lost, Contradiction) and "changed by another program" in str(lost)
        assert routing(site).current().bootstrap_servers == won.bootstrap_servers


KILLED = """
import os, sys, signal
sys.path[:0] = {paths!r}
from tests.faults.deployment.test_dns_redirect import TO_WEST, routing
from kafka_dr.hooks.site.dns_servers import DnsServers
from types import SimpleNamespace
site = SimpleNamespace(port={port}, servers={{"ns1": SimpleNamespace(address={address!r})}})
send = DnsServers.send
def send_and_die(self, update, timeout):
    if {before}: os.kill(os.getpid(), signal.SIGKILL)
    send(self, update, timeout)
    os.kill(os.getpid(), signal.SIGKILL)
DnsServers.send = send_and_die
routing(site).redirect(TO_WEST, anchor={{"sequence": 7}})
"""


@pytest.mark.parametrize("before", [True, False])
def test_killed_at_the_update_the_second_run_ends_it(site: KnotSite, before: bool) -> None:
    """Before it is sent, and between it and the read-back: one end state, written once."""
    primary = site.servers["ns1"]
    program = KILLED.format(paths=sys.path, port=site.port, address=primary.address, before=before)
    done = subprocess.run([sys.executable, "-c", program], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    assert primary.serial() == (1 if before else 2)
    again = routing(site).redirect(TO_WEST, anchor={"sequence": 8})
    assert again.changed is before and again.seen == ClientRoute("standby", "west:9092", 1)
    assert primary.serial() == 2
    assert routing(site).anchors() == [{"sequence": 8 if before else 7}]


def test_the_script_for_a_person_does_the_same(site: KnotSite, tmp_path: Path) -> None:
    """Read by Knot's own knsupdate, which takes nsupdate's commands and key file."""
    settings = routing(site)._settings
    record = {"cluster": "standby", "bootstrap_servers": "west:9092", "version": 1}
    server, shared = (site.servers["ns1"].address, site.port), (NAME, settings.expected["standby"])
    script, key = tmp_path / "redirect.nsupdate", tmp_path / "key"
    script.write_text(nsupdate_script(server, ZONE, shared, (settings.record_name, record), TTL))
    key.write_text(f"hmac-sha256:{KEY}:{SECRET}")
    subprocess.run(["knsupdate", "-y", key.read_text(), str(script)], check=True)
    assert routing(site).current() == ClientRoute("standby", "west:9092", 1)
    assert not routing(site).redirect(TO_WEST).changed
