"""Certificates and bearer token of an HTTPS connection; the check of certificates cannot be disabled."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from kafka_dr.errors import BadInput

#: The characters of a bearer token, by RFC 6750.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
#: User name and password; None without a login.
Login = tuple[str, str] | None

_KEYS = ("verify", "cert", "key")
_PATHS = (*_KEYS, "token_file")


@dataclass(frozen=True)
class HttpTls:
    """How both sides of an HTTPS connection prove who they are; "" for what is not used.

    Paths are those of files on the machine where tasks run. With a bearer token no user and password are sent.

    Attributes:
        verify: certificates of the CAs that may have signed the system's certificate; "" for the public CAs.
        cert: the client's certificate, followed by certificates of intermediate CAs if there are any.
        key: the client's private key without password; "" if this key is in the file `cert`.
        token: the client's bearer token.
        token_file: path of a file with the bearer token, which is read again for each request.
    """

    verify: str = ""
    cert: str = ""
    key: str = ""
    token: str = field(default="", repr=False)
    token_file: str = ""

    @classmethod
    def of_extra(cls, extra: Mapping[str, Any], connection_id: str) -> HttpTls:
        """Return what the extra of an Airflow connection has under the names of this class's attributes.

        Raises:
            BadInput: `verify` is not a path, for example false; or a path is not absolute; or there is only a key; or
                the token cannot stand in a header. The error does not show the token.
        """
        problems = []
        paths = {}
        for key in _PATHS:
            value = extra.get(key)
            if value is None or (key == "verify" and value is True):
                continue
            paths[key] = value
            if not isinstance(value, str) or not value.startswith("/"):
                problems.append(f"{key}: not an absolute path")
        if "key" in paths and "cert" not in paths:
            problems.append("key: given without cert")
        token = extra.get("token")
        if token is not None and not (isinstance(token, str) and _TOKEN.fullmatch(token)):
            problems.append("token: not a bearer token")
        if token is not None and "token_file" in paths:
            problems.append("token: given with token_file")
        if problems:
            raise BadInput(
                f"Connection {connection_id} names no usable certificates",
                "; ".join(problems),
                "In the connection's extra, set `verify` to the absolute path of a PEM file with the CA's certificate,"
                " or remove `verify` for a public CA: the check of certificates cannot be disabled. `cert` and `key`"
                " are the absolute paths of the client's certificate and key; `token` is the client's bearer token, or"
                " `token_file` the absolute path of a file with this token.",
            )
        return cls(**paths, token=token or "")

    @property
    def has_token(self) -> bool:
        """Whether a bearer token takes the place of user and password."""
        return bool(self.token or self.token_file)

    def prepare(self, session: requests.Session, base_url: str, system: str) -> None:
        """Have a session use these files, and the token.

        Raises:
            BadInput: a file cannot be read or used, or the URL's scheme is http, so that no file would be used, and the
                token would be readable on the way.
        """
        if self == HttpTls():
            return
        if not base_url.startswith("https:"):
            raise BadInput(
                f"the connection to {system} would not be encrypted",
                f"the connection's extra has certificates or a token, but the address begins with"
                f" {base_url.partition('/')[0]}",
                "write https:// in the address of the Airflow connection, or remove `verify`, `cert`, `key`, `token`"
                " and `token_file`",
            )
        self._check_files(system)
        if self.verify:
            session.verify = self.verify
        if self.cert:
            session.cert = (self.cert, self.key) if self.key else self.cert
        if self.has_token:
            session.auth = self._add_token

    def _add_token(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the token to a request; OSError if its file cannot be read."""
        token = self.token or Path(self.token_file).read_text(encoding="utf-8").strip()
        request.headers["Authorization"] = f"Bearer {token}"
        return request

    def _check_files(self, system: str) -> None:
        for name, path in ((key, getattr(self, key)) for key in _PATHS):
            if path:
                _require_readable(name, path, system)
        context = ssl.create_default_context()
        try:
            if self.verify:
                context.load_verify_locations(self.verify)
        except OSError as error:
            raise _unusable("verify", self.verify, "no certificate in PEM form", system) from error
        try:
            if self.cert:
                # Without this function OpenSSL would ask for a key's password on the terminal, and wait.
                context.load_cert_chain(self.cert, self.key or None, password=str)
        except OSError as error:
            seen = "certificate and key, both in PEM form and without password, do not stand there or do not match"
            raise _unusable("cert and key", " and ".join(filter(None, (self.cert, self.key))), seen, system) from error


def _require_readable(name: str, path: str, system: str) -> None:
    try:
        with Path(path).open("rb") as file:
            file.read(1)
    except OSError as error:
        raise _unusable(name, path, f"{error.strerror}", system) from None


def _unusable(name: str, path: str, seen: str, system: str) -> BadInput:
    return BadInput(
        f"the file that {name} names in the connection of {system} cannot be used",
        f"{path}: {seen}",
        "copy the file to every machine where tasks run, and let the user of Airflow's tasks read it",
    )
