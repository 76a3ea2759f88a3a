"""What an observation has of a shared DNS name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka_dr.actions.readiness import dns as looking
from kafka_dr.actions.readiness.dns import notes_after_loss, see_dns
from kafka_dr.actions.readiness.observe import observe_pair
from kafka_dr.hooks.site.dns_servers import DnsLogin
from kafka_dr.hooks.site.routing import ClientRoute

from tests.support.bench import Bench
from tests.support.dns.fake_server import KEY, NAME, SECRET, ZONE, FakeDnsServer

ANSWERS = {"primary": "in-east.site.example", "standby": ["192.0.2.1"]}


@pytest.fixture
def led(make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A bench whose clients find their cluster by DNS, and the name's server."""
    server = FakeDnsServer({(NAME, "CNAME"): (20, ["in-east.site.example."])})
    names = {"zone": ZONE, "name": NAME, "answers": ANSWERS}
    bench = make_bench(routing={"kind": "dns", "connection": "zone", **names})
    login = DnsLogin("127.0.0.1", server.port, KEY, SECRET, servers=("127.0.0.1",))
    monkeypatch.setattr(type(bench.connections), "dns", lambda *_: login, raising=False)
    yield bench, server
    server.close()


def test_an_observation_tries_the_name(led: Any) -> None:
    """Where it leads, and that an update would be taken; a bench without DNS has nothing of it."""
    bench, server = led
    view = observe_pair(bench.opened(), {}, apart=0).dns
    assert (view.refused, view.leads_to, view.name) == ("", "primary", NAME)
    assert server.data(NAME, "CNAME") == ["in-east.site.example."]


def test_other_routing_is_not_looked_at(bench: Bench) -> None:
    """None: clients find their cluster otherwise."""
    assert see_dns(bench.opened()) is None


def test_the_approver_of_a_loss_reads_the_standing_ttl(led: Any, make_bench: Callable[..., Bench]) -> None:
    """As the zone has it; that the zone takes no update is said before the approval, not after the opening."""
    bench, server = led
    (kept,) = notes_after_loss(bench.opened())
    assert "former answer for 20 s" in kept
    server.close()
    refused, _ = notes_after_loss(bench.opened())
    assert f"{NAME} cannot be redirected now" in refused
    assert notes_after_loss(make_bench().opened()) == []


def test_a_run_redirects_by_dns(led: Any) -> None:
    """The client that the run has is one of the zone; the address is part of what the run is bound to."""
    bench, server = led
    procedure = bench.opened()
    assert procedure.systems.routing.redirect(ClientRoute("standby", "s:9092")).changed
    assert server.data(NAME, "A") == ["192.0.2.1"]
    assert procedure.progress.opened.binding.addresses["zone"].startswith(f"dns://127.0.0.1:{server.port}")


def test_brokers_whose_certificate_lacks_the_name_are_named(led: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of clusters with TLS alone; a broker that shows no certificate is left out."""
    bench, _ = led
    asked: list[tuple[str, str]] = []

    def names(address: str, name: str) -> tuple[str, ...] | None:
        asked.append((address, name))
        return {"b1:9093": ("b1.site.example",), "b2:9093": ("*.site.example",)}.get(address)

    procedure = bench.opened()
    servers = {"kafka_primary": "b1:9093, b2:9093,b3:9093", "kafka_standby": "c1:9092"}
    protocols = {"kafka_primary": "SASL_SSL", "kafka_standby": "SASL_PLAINTEXT"}
    monkeypatch.setattr(looking, "names_of_server", names)
    monkeypatch.setattr(
        type(bench.connections),
        "kafka",
        lambda _, name: {"bootstrap.servers": servers[name], "security.protocol": protocols[name]},
    )
    assert see_dns(procedure).nameless == {"primary": ("b1:9093 (b1.site.example)",)}
    assert {name for _, name in asked} == {NAME.removesuffix(".")} and len(asked) == 3
