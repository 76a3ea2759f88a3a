"""A small issuer of tokens over HTTPS: OAuth 2.0's client credentials and JSON Web Tokens, made with PyJWT.

    python -m lab.environment.logins.issuer SETTINGS

SETTINGS is a JSON file of mode 0600: `address` (host:port), `certificate` and `key` (PEM files), `clients` (client id
-> secret) and `seconds` (how long a token is valid).
"""

from __future__ import annotations

import base64
import json
import ssl
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, unquote

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from jwt.algorithms import ECAlgorithm

from lab.environment.logins.kinds import AUDIENCE, KEYS_PATH, TOKEN_PATH

_KEY_ID = "lab-1"


class IssuerServer(ThreadingHTTPServer):
    """Answers `POST /token` to clients that it knows, and `GET /keys` with the public key of the tokens' signatures.

    Args:
        host, port: where it listens; port 0: any free port.
        certificate, key: PEM files of the server; the key also signs the tokens.
        clients: client id -> secret. A client's id becomes the token's subject, so the principal on the brokers.
        seconds: how long a token is valid.
    """

    daemon_threads = True

    def __init__(
        self, host: str, port: int, certificate: Path, key: Path, clients: Mapping[str, str], seconds: float
    ) -> None:
        super().__init__((host, port), _Answers)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        # The handshake in the request's own thread: a client that breaks off must not end the server.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://{host}:{self.server_address[1]}"
        self._clients, self._seconds = dict(clients), seconds
        self._key = cast("ec.EllipticCurvePrivateKey", load_pem_private_key(key.read_bytes(), None))
        #: Client ids of all tokens that were issued.
        self.issued: list[str] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: a client that breaks off is no failure of the issuer."""

    def public_keys(self) -> dict[str, Any]:
        """Return the JSON Web Key Set with which tokens are verified."""
        public: dict[str, Any] = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": _KEY_ID, "alg": "ES256", "use": "sig"}]}

    def token_for(self, client: str | None, secret: str, scope: str) -> dict[str, Any] | None:
        """Return the answer with a new token; None for an unknown client, or a wrong secret."""
        if client is None or self._clients.get(client) != secret:
            return None
        now = int(time.time())
        claims = {
            "iss": self.url, "sub": client, "aud": AUDIENCE, "iat": now, "exp": now + self._seconds, "scope": scope,
        }  # fmt: skip
        self.issued.append(client)
        token = jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": _KEY_ID})
        return {"access_token": token, "token_type": "Bearer", "expires_in": self._seconds, "scope": scope}


class _Answers(BaseHTTPRequestHandler):
    server: IssuerServer
    timeout = 10

    def do_GET(self) -> None:
        """Answer with the public keys."""
        if self.path == KEYS_PATH:
            self._send(200, self.server.public_keys())
        else:
            self._send(404, {"error": "not_found"})

    def do_POST(self) -> None:
        """Answer with a token, or with the error of OAuth 2.0."""
        asked = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
        client, secret = self._credentials()
        if self.path != TOKEN_PATH or asked.get("grant_type") != ["client_credentials"]:
            self._send(400, {"error": "unsupported_grant_type"})
        elif (answer := self.server.token_for(client, secret, asked.get("scope", ["kafka"])[0])) is None:
            self._send(401, {"error": "invalid_client", "error_description": "unknown client or wrong secret"})
        else:
            self._send(200, answer)

    def _credentials(self) -> tuple[str | None, str]:
        kind, _, encoded = self.headers.get("Authorization", "").partition(" ")
        if kind != "Basic":
            return None, ""
        client, _, secret = base64.b64decode(encoded).decode().partition(":")
        return unquote(client), unquote(secret)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (http.server's own name)
        """Print no request."""


def main(settings: Path) -> None:
    """Serve until the process is ended."""
    given = json.loads(settings.read_text(encoding="utf-8"))
    host, _, port = given["address"].rpartition(":")
    server = IssuerServer(
        host, int(port), Path(given["certificate"]), Path(given["key"]), given["clients"], given["seconds"]
    )
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
