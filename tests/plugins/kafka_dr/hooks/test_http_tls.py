"""Over HTTPS the other side proves who it is, by a certificate of the CA that the connection names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import requests
from kafka_dr.errors import BadInput, ConnectUnavailable
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.json_endpoint import NO_ANSWER, JsonEndpoint

from lab.environment.production.certificates import LabAuthority
from tests.support.json_server import served_over_tls


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> LabAuthority:
    """A CA with a server's, a client's and another host's certificate."""
    made = LabAuthority(tmp_path_factory.mktemp("ca"))
    made.issue_once("server")
    made.issue_once("client")
    made.issue_once("elsewhere", hosts=("elsewhere.example",), addresses=("127.0.0.9",))
    return made


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> LabAuthority:
    """A CA that nobody here trusts."""
    made = LabAuthority(tmp_path_factory.mktemp("stranger"))
    made.issue_once("client")
    return made


@pytest.fixture(scope="module")
def url(authority: LabAuthority) -> Iterator[str]:
    """The address of a server that answers every client."""
    with served_over_tls(authority.files_of("server")) as address:
        yield address


@pytest.fixture(scope="module")
def strict_url(authority: LabAuthority) -> Iterator[str]:
    """The address of a server that answers clients with a certificate only."""
    with served_over_tls(authority.files_of("server"), clients_of=authority) as address:
        yield address


def _trusting(authority: LabAuthority, **more: str) -> HttpTls:
    return HttpTls(verify=str(authority.certificate), **more)


def _as_client(authority: LabAuthority) -> dict[str, str]:
    files = authority.files_of("client")
    return {"cert": str(files.certificate), "key": str(files.key)}


def test_the_right_ca(url: str, authority: LabAuthority) -> None:
    """A certificate of the CA in `verify` is taken, by address and by host name."""
    for address in (url, url.replace("127.0.0.1", "localhost")):
        assert JsonEndpoint(address, "Connect", tls=_trusting(authority)).call("GET", "/") == {"client": [""]}


def test_a_wrong_ca(url: str, stranger: LabAuthority) -> None:
    """Nothing is sent; the error names the cause and the key to correct."""
    endpoint = JsonEndpoint(url, "Connect", ConnectUnavailable, tls=_trusting(stranger))
    answer = endpoint.attempt("GET", "/")
    assert (answer.status, answer.timed_out) == (NO_ANSWER, False)
    with pytest.raises(ConnectUnavailable, match=r"certificate.*correct `verify`, `cert` and `key`"):
        endpoint.call("GET", "/")


@pytest.mark.parametrize("tls", [None, HttpTls()])
def test_a_private_ca_that_is_not_named(url: str, tls: HttpTls | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Public CAs alone are trusted, whatever the environment says."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere")
    monkeypatch.setenv("CURL_CA_BUNDLE", "")
    answer = JsonEndpoint(url, "Connect", tls=tls).attempt("GET", "/")
    assert answer.status == NO_ANSWER and "certificate" in answer.text


def test_another_hosts_certificate(authority: LabAuthority) -> None:
    """A certificate of the right CA for another host is refused."""
    with served_over_tls(authority.files_of("elsewhere")) as address:
        for host in ("127.0.0.1", "localhost"):
            there = address.replace("127.0.0.1", host)
            answer = JsonEndpoint(there, "Connect", tls=_trusting(authority)).attempt("GET", "/")
            assert (answer.status, answer.timed_out) == (NO_ANSWER, False)
            assert "mismatch" in answer.text or "not valid for" in answer.text


def test_a_clients_certificate(strict_url: str, authority: LabAuthority) -> None:
    """Certificate and key in two files, or both in one."""
    both = str(authority.files_of("client").both)
    for given in (_as_client(authority), {"cert": both}):
        endpoint = JsonEndpoint(strict_url, "Connect", tls=_trusting(authority, **given))
        assert endpoint.call("GET", "/") == {"client": ["client"]}


@pytest.mark.parametrize("whose", ["nobody's", "a stranger's"])
def test_a_client_that_is_not_known(
    strict_url: str, authority: LabAuthority, stranger: LabAuthority, whose: str
) -> None:
    """Without a certificate, or with one of another CA, there is no answer."""
    given = {} if whose == "nobody's" else _as_client(stranger)
    endpoint = JsonEndpoint(strict_url, "Connect", tls=_trusting(authority, **given))
    assert endpoint.attempt("GET", "/").status == NO_ANSWER


def test_files_that_cannot_be_used(url: str, authority: LabAuthority, stranger: LabAuthority, tmp_path: Path) -> None:
    """Each is refused before a request is sent, and named with its key."""
    text, client = tmp_path / "text.pem", _as_client(authority)
    text.write_text("no certificate")
    cases = {
        ("verify", "No such file"): HttpTls(verify=str(tmp_path / "missing.pem")),
        ("verify", "Is a directory"): HttpTls(verify=str(tmp_path)),
        ("verify", "no certificate in PEM form"): HttpTls(verify=str(text)),
        ("key", "No such file"): HttpTls(cert=client["cert"], key=str(tmp_path / "missing.key")),
        ("cert and key", "do not match"): HttpTls(cert=client["cert"], key=_as_client(stranger)["key"]),
        ("cert and key", "do not stand there"): HttpTls(cert=client["cert"]),
    }
    for (key, seen), tls in cases.items():
        with pytest.raises(BadInput, match=f"the file that {key} names in the connection of Connect") as refused:
            MirrorMaker(url, tls=tls)
        assert seen in str(refused.value)


def test_a_file_that_vanishes_is_an_unavailable_system(url: str, authority: LabAuthority, tmp_path: Path) -> None:
    """Files are renewed while a procedure runs: no other class of error reaches a step."""
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.certificate.read_bytes())
    endpoint = JsonEndpoint(url, "Connect", tls=HttpTls(verify=str(ca)))
    ca.unlink()
    answer = endpoint.attempt("GET", "/")
    assert answer.status == NO_ANSWER and str(ca) in answer.text


def test_an_address_without_encryption_is_refused(authority: LabAuthority) -> None:
    """Who names certificates expects encryption."""
    with pytest.raises(BadInput, match="would not be encrypted"):
        JsonEndpoint("http://127.0.0.1:9", "Connect", tls=_trusting(authority))


@pytest.mark.parametrize("value", [False, "false", "False", "", 0, "ca.pem", ["/ca.pem"]])
def test_the_check_cannot_be_disabled(value: object) -> None:
    """What is no absolute path is refused, with the connection's name and without the value."""
    with pytest.raises(BadInput, match="Connection connect_x names no usable certificates.*cannot be disabled"):
        HttpTls.of_extra({"verify": value}, "connect_x")


def test_what_an_extra_may_hold() -> None:
    """True means the public CAs; other keys are for others."""
    assert HttpTls.of_extra({"verify": True, "timeout": 3}, "c") == HttpTls.of_extra({}, "c") == HttpTls()
    whole = HttpTls.of_extra({"verify": "/a", "cert": "/b", "key": "/c"}, "c")
    assert whole == HttpTls("/a", "/b", "/c") and replace(whole, key="") != whole
    with pytest.raises(BadInput, match="key: given without cert"):
        HttpTls.of_extra({"key": "/c"}, "c")


def test_the_test_server_speaks_tls_only(url: str) -> None:
    """Otherwise nothing here would be shown."""
    with pytest.raises(requests.ConnectionError):
        requests.get(url.replace("https", "http"), timeout=5)
