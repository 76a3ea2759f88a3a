"""Over HTTPS the other side proves who it is, by a certificate of the CA that the connection names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import requests
from kafka_dr.errors import BadInput, ConnectUnavailable, HookUnavailable
from kafka_dr.hooks.airflow_api import AirflowApi
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.json_endpoint import NO_ANSWER, JsonEndpoint

from lab.environment.production.certificates import LabAuthority
from tests.support.json_server import JsonHandler, served_over_tls


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


class Guarded(JsonHandler):
    """Answers who shows the right bearer token; an error repeats what was shown."""

    token = "abc.DEF-123"

    def do_GET(self) -> None:  # noqa: N802 (http.server calls it so)
        """Answer, or refuse."""
        shown = self.headers.get("Authorization")
        if self.path == "/auth/token" or shown != f"Bearer {self.token}":
            self.answer(401, {"detail": f"refused: {shown}"})
        else:
            self.answer(200, {"run": "known", "state": "success"})

    do_POST = do_GET


@pytest.fixture
def guarded_url(authority: LabAuthority) -> Iterator[str]:
    """The address of a server that asks for a bearer token."""
    with served_over_tls(authority.files_of("server"), handler=Guarded) as address:
        yield address


def test_a_bearer_token_takes_the_place_of_user_and_password(guarded_url: str, authority: LabAuthority) -> None:
    """To Connect and the hooks; the same class sends it with and without a client's certificate."""
    for more in ({}, _as_client(authority)):
        tls = _trusting(authority, token=Guarded.token, **more)
        assert JsonEndpoint(guarded_url, "Connect", auth=("user", "pw"), tls=tls).attempt("GET", "/").ok


def test_a_wrong_token_is_an_error_that_does_not_show_it(guarded_url: str, authority: LabAuthority) -> None:
    """Although the server repeats it; nor does what is printed of the settings."""
    tls = _trusting(authority, token="wr0ng.t0ken")
    with pytest.raises(ConnectUnavailable, match=r"HTTP 401.*correct login or token") as refused:
        JsonEndpoint(guarded_url, "Connect", ConnectUnavailable, tls=tls).call("GET", "/")
    assert "wr0ng.t0ken" not in str(refused.value) and "wr0ng.t0ken" not in repr(tls)


def test_a_token_in_a_file_is_read_for_each_request(guarded_url: str, authority: LabAuthority, tmp_path: Path) -> None:
    """Another program renews it; a file that has vanished is an unavailable system."""
    file = tmp_path / "token"
    file.write_text("old")
    endpoint = JsonEndpoint(guarded_url, "Connect", tls=_trusting(authority, token_file=str(file)))
    assert endpoint.attempt("GET", "/").status == 401
    file.write_text(f"{Guarded.token}\n")
    assert endpoint.attempt("GET", "/").ok
    file.unlink()
    assert endpoint.attempt("GET", "/").status == NO_ANSWER
    with pytest.raises(BadInput, match="token_file names in the connection of Connect"):
        JsonEndpoint(guarded_url, "Connect", tls=_trusting(authority, token_file=str(file)))


def test_airflows_api_takes_a_token_of_the_connection(guarded_url: str, authority: LabAuthority) -> None:
    """No token is asked for by password; a refused one is said, and not asked for again."""
    api = AirflowApi(guarded_url, "svc", "", _trusting(authority, token=Guarded.token))
    assert api.dag_run("planned_failover", "r").state == "success" and api.username == "svc"
    with pytest.raises(HookUnavailable, match="HTTP 401"):
        AirflowApi(guarded_url, "svc", "", _trusting(authority, token="old")).dag_run("planned_failover", "r")


def test_a_token_over_http_is_refused() -> None:
    """Everybody on the way could use it."""
    with pytest.raises(BadInput, match="would not be encrypted") as refused:
        JsonEndpoint("http://127.0.0.1:9", "Connect", tls=HttpTls(token="abc"))
    assert "abc" not in str(refused.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", 5, "ümlaut"])
def test_what_is_no_token_is_refused_without_its_value(token: object) -> None:
    """A header could be made of it that says something else."""
    with pytest.raises(BadInput, match="token: not a bearer token") as refused:
        HttpTls.of_extra({"token": token}, "connect_x")
    assert "two words" not in str(refused.value) and "mlaut" not in str(refused.value)
    with pytest.raises(BadInput, match="token: given with token_file"):
        HttpTls.of_extra({"token": "abc", "token_file": "/t"}, "connect_x")
