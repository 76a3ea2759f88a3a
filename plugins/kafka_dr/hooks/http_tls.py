"""Which certificates an HTTPS connection uses; the check of the system's certificate cannot be disabled."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from kafka_dr.errors import BadInput

#: User name and password; None without a login.
Login = tuple[str, str] | None

_KEYS = ("verify", "cert", "key")


@dataclass(frozen=True)
class HttpTls:
    """Paths of PEM files on the machine where tasks run; "" for a file that is not used.

    Attributes:
        verify: certificates of the CAs that may have signed the system's certificate; "" for the public CAs.
        cert: the client's certificate, followed by certificates of intermediate CAs if there are any.
        key: the client's private key without password; "" if this key is in the file `cert`.
    """

    verify: str = ""
    cert: str = ""
    key: str = ""

    @classmethod
    def of_extra(cls, extra: Mapping[str, Any], connection_id: str) -> HttpTls:
        """Return the files that the extra of an Airflow connection names under `verify`, `cert` and `key`.

        Raises:
            BadInput: `verify` is not a path, for example false; or a path is not absolute; or there is only a key.
        """
        problems = []
        paths = {}
        for key in _KEYS:
            value = extra.get(key)
            if value is None or (key == "verify" and value is True):
                continue
            paths[key] = value
            if not isinstance(value, str) or not value.startswith("/"):
                problems.append(f"{key}: not an absolute path")
        if "key" in paths and "cert" not in paths:
            problems.append("key: given without cert")
        if problems:
            raise BadInput(
                f"Connection {connection_id} names no usable certificates",
                "; ".join(problems),
                "In the connection's extra, set `verify` to the absolute path of a PEM file with the CA's certificate,"
                " or remove `verify` for a public CA: the check of certificates cannot be disabled. `cert` and `key`"
                " are the absolute paths of the client's certificate and key.",
            )
        return cls(**paths)

    def prepare(self, session: requests.Session, base_url: str, system: str) -> None:
        """Have a session use these files.

        Raises:
            BadInput: a file cannot be read or used, or the URL's scheme is http, so that no file would be used.
        """
        if self == HttpTls():
            return
        if not base_url.startswith("https:"):
            raise BadInput(
                f"the connection to {system} would not be encrypted",
                f"the connection's extra names certificates, but the address begins with {base_url.partition('/')[0]}",
                "write https:// in the address of the Airflow connection, or remove `verify`, `cert` and `key`",
            )
        self._check_files(system)
        if self.verify:
            session.verify = self.verify
        if self.cert:
            session.cert = (self.cert, self.key) if self.key else self.cert

    def _check_files(self, system: str) -> None:
        for name, path in ((key, getattr(self, key)) for key in _KEYS):
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
