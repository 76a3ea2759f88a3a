"""Tokens from a real issuer over HTTPS; why there is none is named, and whether waiting may help."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.client import describe_error
from kafka_dr.hooks.logins import token_issuer
from kafka_dr.hooks.logins.token_issuer import NOT_ACQUIRED, TokenIssuer, explain_complaint

from lab.environment.logins.issuer import IssuerServer
from lab.environment.logins.kinds import TOKEN_PATH
from lab.environment.production.certificates import LabAuthority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> LabAuthority:
    """A CA with the issuer's certificate."""
    made = LabAuthority(tmp_path_factory.mktemp("ca"))
    made.issue_once("issuer")
    return made


@pytest.fixture
def issuer(authority: LabAuthority) -> Iterator[IssuerServer]:
    """The lab's issuer, which knows one client."""
    files = authority.files_of("issuer")
    server = IssuerServer("127.0.0.1", 0, files.certificate, files.key, {"dr": "hun:ter2"}, 100)
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def settings(issuer: IssuerServer, authority: LabAuthority, **more: str) -> dict[str, str]:
    """Return a connection's settings for this issuer."""
    return {
        "sasl.oauthbearer.client.id": "dr",
        "sasl.oauthbearer.client.secret": "hun:ter2",
        "sasl.oauthbearer.token.endpoint.url": f"{issuer.url}{TOKEN_PATH}",
        "https.ca.location": str(authority.certificate),
        **more,
    }


def test_a_token_is_used_until_it_is_old(
    issuer: IssuerServer, authority: LabAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One token for many connections; the next one before the brokers would refuse it."""
    now = [1000.0]
    monkeypatch.setattr(token_issuer.time, "monotonic", lambda: now[0])
    given = {"sasl.oauthbearer.scope": "kafka:all", "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,x=y=z"}
    tokens = TokenIssuer(settings(issuer, authority, **given), "east")
    first = tokens.token()
    claims = jwt.decode(first, options={"verify_signature": False})
    assert (claims["sub"], claims["scope"]) == ("dr", "kafka:all")
    assert tokens.extensions() == {"logicalCluster": "lkc-1", "x": "y=z"}
    now[0] += 79
    assert tokens.token() == first and len(issuer.issued) == 1
    now[0] += 2
    tokens.token()
    assert len(issuer.issued) == 2


def test_a_wrong_secret_is_final(issuer: IssuerServer, authority: LabAuthority) -> None:
    """The issuer's own words are shown, not the secret."""
    tokens = TokenIssuer(settings(issuer, authority, **{"sasl.oauthbearer.client.secret": "hunter3"}), "east")
    with pytest.raises(KafkaUnavailable, match="logging in on east failed: the issuer of tokens gave") as refused:
        tokens.token()
    assert not refused.value.may_pass and "invalid_client" in str(refused.value)
    assert "hunter3" not in str(refused.value)


def test_an_issuer_that_does_not_answer_may_come_back(issuer: IssuerServer, authority: LabAuthority) -> None:
    """A step waits for it."""
    away = {"sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:9/token"}
    with pytest.raises(KafkaUnavailable, match="the issuer of tokens does not answer") as refused:
        TokenIssuer(settings(issuer, authority, **away), "east").token()
    assert refused.value.may_pass and "Connection refused" in refused.value.seen


def test_a_certificate_of_another_ca_is_final(issuer: IssuerServer, tmp_path: Path) -> None:
    """The secret is not sent; the next step names the setting."""
    stranger = LabAuthority(tmp_path)
    stranger.create_once()
    with pytest.raises(KafkaUnavailable, match=r"certificate.*https\.ca\.location") as refused:
        TokenIssuer(settings(issuer, stranger), "east").token()
    assert not refused.value.may_pass and issuer.issued == []


class Broken(BaseHTTPRequestHandler):
    """Answers as a gateway in front of an issuer does."""

    status, content = 503, b"<html>hun:ter2</html>"

    def do_POST(self) -> None:
        """Answer without a token."""
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.mark.parametrize(
    ("status", "content", "may_pass"),
    [(503, b"<html>", True), (429, b"", True), (302, b"", False), (200, b"[]", False), (200, b"{}", False)],
)
def test_an_answer_without_a_token_is_named_by_its_status(
    status: int, content: bytes, may_pass: bool, authority: LabAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that is overloaded may recover; an answer of another kind stays."""
    monkeypatch.setattr(Broken, "status", status)
    monkeypatch.setattr(Broken, "content", content)
    monkeypatch.setattr(token_issuer, "GuardedAdapter", token_issuer.requests.adapters.HTTPAdapter)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Broken)
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    given = {"token.endpoint.url": f"http://127.0.0.1:{server.server_port}/", "client.id": "dr", "client.secret": "x"}
    try:
        with pytest.raises(KafkaUnavailable, match=f"HTTP {status}") as refused:
            TokenIssuer({f"sasl.oauthbearer.{key}": value for key, value in given.items()}, "east").token()
    finally:
        server.shutdown()
        server.server_close()
    assert refused.value.may_pass is may_pass


@pytest.mark.parametrize(
    ("why", "may_pass"),
    [
        ("Failed to connect to 127.0.0.1:9 after 0 ms: Could not connect to server", True),
        ("Could not resolve host: issuer.example", True),
        ("Operation timed out after 5000 milliseconds", True),
        ('{"error": "invalid_client", "error_description": "unknown client or wrong secret"}', False),
        ("SSL certificate problem: unable to get local issuer certificate", False),
        ("error adding trust anchors from file: /etc/pki/tls/certs/ca-bundle.crt", False),
    ],
)
def test_what_librdkafka_says_of_its_tokens_is_understood(why: str, may_pass: bool) -> None:
    """Its words on the installed version, as real clients said them; nothing of them is hidden as if a token."""

    class Said:
        """An error of librdkafka."""

        def name(self) -> str:
            return "_AUTHENTICATION"

        def str(self) -> str:
            return f"{NOT_ACQUIRED}: {why}"

    error = explain_complaint("east", "reading metadata", describe_error(Said()))  # type: ignore[arg-type]
    assert error is not None and error.may_pass is may_pass
    assert error.seen.startswith(why[:30]) and "reading metadata on east failed" in error.reason
    assert explain_complaint("east", "reading metadata", "_TRANSPORT (Connection refused)") is None
