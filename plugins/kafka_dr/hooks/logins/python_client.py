"""Translates a connection's librdkafka settings into settings of the client kafka-python."""

from __future__ import annotations

import os
import ssl
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from kafka_dr.domain.logins.client_login import TOKEN, mechanism_of, protocol_of
from kafka_dr.errors import BadInput
from kafka_dr.hooks.logins.token_issuer import TokenIssuer

with warnings.catch_warnings():
    # Each of its hundred messages would warn in the log of each task.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.net.sasl.oauth import AbstractTokenProvider


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python comes without types
    """Gives kafka-python tokens, and what else it tells brokers with them."""

    def __init__(self, get_token: Callable[[], str], extensions: Mapping[str, str]) -> None:
        self._get_token, self._extensions = get_token, extensions

    def token(self) -> str:
        """Return a token that is valid; KafkaUnavailable if there is none."""
        return self._get_token()

    def extensions(self) -> dict[str, str]:
        """Return what brokers are told besides the token."""
        return dict(self._extensions)


def for_python(config: Mapping[str, Any], alias: str) -> dict[str, Any]:
    """Return kafka-python's settings for the same login to the same cluster; librdkafka's tuning is left out.

    Args:
        config: the connection's settings, by librdkafka's keys.
        alias: the cluster's name in the topology, for errors.

    Raises:
        BadInput: a certificate or key cannot be read or used. The error shows no secret.
    """
    protocol = protocol_of(config)
    settings: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in str(config["bootstrap.servers"]).split(",")],
        "client_id": str(config.get("client.id", "switchback")),
        "security_protocol": protocol,
    }
    if mechanism := mechanism_of(config):
        settings["sasl_mechanism"] = mechanism
        settings |= _tokens(config, alias) if mechanism == TOKEN else _password(config)
    if protocol.endswith("SSL"):
        settings["ssl_context"] = tls_context(config, alias)
    return settings


def _password(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sasl_plain_username": str(config.get("sasl.username", "")),
        "sasl_plain_password": str(config.get("sasl.password", "")),
    }


def _tokens(config: Mapping[str, Any], alias: str) -> dict[str, Any]:
    if get_token := config.get("oauth_cb"):
        return {"sasl_oauth_token_provider": _TokenProvider(lambda: get_token("")[0], {})}
    issuer = TokenIssuer(config, alias)
    return {"sasl_oauth_token_provider": _TokenProvider(issuer.token, issuer.extensions())}


def tls_context(config: Mapping[str, Any], alias: str) -> ssl.SSLContext:
    """Return how a client with these settings verifies brokers, and with which certificate it logs in.

    Raises:
        BadInput: as `for_python`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = str(config.get("ssl.endpoint.identification.algorithm", "https")) != "none"
    try:
        _trust(context, config)
        certificate, password = _own_certificate(config), config.get("ssl.key.password")
        if certificate:
            # OpenSSL reads keys from files only: this file has no name, so that no other user can read the key.
            with tempfile.TemporaryFile(prefix="switchback-") as file:
                file.write(certificate)
                file.flush()
                context.load_cert_chain(f"/proc/{os.getpid()}/fd/{file.fileno()}", password=password or None)
        if "ssl.cipher.suites" in config:
            context.set_ciphers(str(config["ssl.cipher.suites"]))
    except (OSError, ValueError) as error:
        raise BadInput(
            f"the certificates of the Kafka connection of {alias} cannot be used",
            f"{type(error).__name__}: {getattr(error, 'strerror', None) or 'not readable as PEM or PKCS#12'}",
            "correct the settings that begin with `ssl.` in the extra of that connection; the user of Airflow's tasks"
            " must be able to read the files on the machine where the task runs",
        ) from None
    return context


def _trust(context: ssl.SSLContext, config: Mapping[str, Any]) -> None:
    """Trust the connection's CAs, else the machine's; refuse revoked certificates if the connection lists them."""
    if "ssl.ca.pem" in config:
        context.load_verify_locations(cadata=str(config["ssl.ca.pem"]))
    elif "ssl.ca.location" in config and config["ssl.ca.location"] != "probe":
        path = Path(str(config["ssl.ca.location"]))
        context.load_verify_locations(capath=str(path)) if path.is_dir() else context.load_verify_locations(str(path))
    else:
        context.load_default_certs()
    if "ssl.crl.location" in config:
        context.load_verify_locations(str(config["ssl.crl.location"]))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _own_certificate(config: Mapping[str, Any]) -> bytes:
    """Return the client's certificate chain and key as PEM; empty if the connection names none."""
    if "ssl.keystore.location" in config:
        return _from_keystore(config)
    return b"\n".join(
        str(config[f"ssl.{part}.pem"]).encode()
        if f"ssl.{part}.pem" in config
        else Path(str(config[f"ssl.{part}.location"])).read_bytes()
        for part in ("certificate", "key")
        if f"ssl.{part}.pem" in config or f"ssl.{part}.location" in config
    )


def _from_keystore(config: Mapping[str, Any]) -> bytes:
    password = str(config.get("ssl.keystore.password", "")).encode()
    content = Path(str(config["ssl.keystore.location"])).read_bytes()
    key, certificate, further = pkcs12.load_key_and_certificates(content, password)
    if key is None or certificate is None:
        raise ValueError("the key store has no key, or no certificate")
    pem_key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return b"".join([*(one.public_bytes(Encoding.PEM) for one in (certificate, *further)), pem_key])
