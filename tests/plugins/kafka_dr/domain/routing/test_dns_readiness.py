"""A shared DNS name before a move: what refuses, and what the approver is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.domain.routing.dns_answers import DnsAnswers
from kafka_dr.domain.routing.dns_readiness import dns_can_redirect, dns_loss_notes, dns_notes
from kafka_dr.domain.routing.dns_view import DnsServerView, DnsView

EAST, WEST = DnsAnswers.stated("in-east.example.com"), DnsAnswers.stated("in-west.example.com")
NS1, NS2 = DnsServerView("ns1", EAST, 30, serial=7), DnsServerView("ns2", EAST, 30, serial=7)
SILENT = DnsServerView("ns3", problem="no answer, timed out")
GOOD: dict[str, Any] = {"name": "kafka.example.com.", "most_ttl": 30, "leads_to": "east", "servers": (NS1, NS2)}


def seen(**changes: Any) -> Any:
    """What an observation has of the name."""
    return SimpleNamespace(dns=DnsView(**GOOD | changes), source=SimpleNamespace(alias="east"))


def test_a_name_in_order_refuses_nothing() -> None:
    """Nor does a server that does not answer, nor routing by other means."""
    for o in (seen(), seen(servers=(NS1, SILENT)), seen(rto_seconds=60.0), SimpleNamespace(dns=None)):
        assert list(dns_can_redirect(o)) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"refused": "the DNS server refused the TSIG key: BADSIG", "leads_to": None}, "BADSIG"),
        ({"leads_to": "west"}, "it leads to west"),
        ({"leads_to": None}, "it leads to no cluster"),
        ({"servers": (NS1, DnsServerView("ns2", WEST, 30, serial=6))}, "ns2: CNAME in-west.example.com. (serial 6)"),
        ({"servers": (DnsServerView("ns1", WEST, 30, serial=6), NS2)}, "ns1: CNAME in-west.example.com. (serial 6)"),
        ({"servers": (NS1, DnsServerView("ns2", EAST, 31, serial=7))}, "ns2: 31 s; limit 30 s (ttl_seconds"),
        ({"rto_seconds": 29.0}, "ns1: 30 s; ns2: 30 s; limit 29 s (rto_seconds of the flow)"),
        ({"nameless": {"west": ("b1:9093 (b1.example.com)",)}}, "b1:9093 (b1.example.com)"),
    ],
)
def test_each_fault_refuses_once_and_is_named(changes: dict[str, Any], words: str) -> None:
    """With the check's name."""
    (blocker,) = dns_can_redirect(seen(**changes))
    assert blocker.gate == "dns_can_redirect" and words in blocker.seen


def test_the_plan_says_what_running_clients_do() -> None:
    """How long resolvers keep the answer, that clients must be restarted, and which servers are silent."""
    silent, running = dns_notes(seen(servers=(NS1, SILENT, DnsServerView("ns4", EAST, 25))))
    assert "ns3: no answer, timed out" in silent
    assert "former answer for 30 s" in running and "every client must be restarted" in running
    assert list(dns_notes(SimpleNamespace(dns=None))) == []


def test_after_a_loss_the_standing_ttl_counts() -> None:
    """The longest of all servers, or the topology's limit if none states one; a name that takes no update is named."""
    (kept,) = dns_loss_notes(DnsView(**GOOD | {"servers": (NS1, DnsServerView("ns4", EAST, 3600))}))
    assert "former answer for 3600 s" in kept and "every client restarted" in kept
    refused, unknown = dns_loss_notes(DnsView(**GOOD | {"servers": (SILENT,), "refused": "REFUSED"}))
    assert "(REFUSED)" in refused and "former answer for 30 s" in unknown
    assert list(dns_loss_notes(None)) == []
