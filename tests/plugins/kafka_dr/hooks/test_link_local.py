"""Nothing is sent to a link-local address, and no answer is too deep to be refused."""

from __future__ import annotations

import pytest
from kafka_dr.errors import BadInput
from kafka_dr.hooks import link_local
from kafka_dr.hooks.json_endpoint import JsonEndpoint, checked_url
from kafka_dr.hooks.link_local import is_link_local


@pytest.mark.parametrize(
    "host", ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "0xA9.254.169.254", "fe80::1%eth0"]
)
def test_every_form_of_a_link_local_address_is_refused(host: str) -> None:
    """What a resolver would take for such an address is one."""
    assert is_link_local(host)
    if ":" not in host:
        with pytest.raises(BadInput, match="link-local"):
            checked_url(f"http://{host}:8083", "Connect")


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "10.0.0.1", "connect-1", "fe80.example", "::1"])
def test_other_hosts_pass(host: str) -> None:
    """Names are not resolved, and other addresses are fine."""
    assert not is_link_local(host)


def test_a_name_that_leads_there_gets_no_request(server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connected peer is looked at, before a byte is sent: here the loopback address stands for a link-local one."""
    endpoint = JsonEndpoint(server.url.replace("127.0.0.1", "localhost"), "Connect", auth=("u", "p"))
    monkeypatch.setattr(link_local, "is_link_local", lambda host: host in ("127.0.0.1", "::1"))
    answer = endpoint.attempt("GET", "/")
    assert answer.status == 0 and not answer.timed_out and server.requests == []
    monkeypatch.undo()
    assert endpoint.attempt("GET", "/").status != 0


def test_json_that_is_nested_too_deep_is_no_answer(server, reply) -> None:
    """It ends no process: it is refused as anything else that is not JSON."""
    server.queue.append(reply(200, b"[" * 200_000))
    answer = JsonEndpoint(server.url, "Connect").attempt("GET", "/")
    assert answer.status == 0 and "not JSON" in answer.text
