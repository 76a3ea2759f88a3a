"""How a client logs in to a cluster, by librdkafka's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: A login by a certificate, or none: not a name of SASL.
NO_SASL = ""
KERBEROS, TOKEN, MSK_IAM = "GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*SCRAM, "PLAIN", TOKEN, MSK_IAM, KERBEROS)


def protocol_of(config: Mapping[str, Any]) -> str:
    """Return the connection's protocol in capitals: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    return str(config.get("security.protocol") or "plaintext").upper()


def mechanism_of(config: Mapping[str, Any]) -> str:
    """Return the SASL mechanism in capitals; NO_SASL without SASL; GSSAPI, librdkafka's default, if none is named."""
    if not protocol_of(config).startswith("SASL"):
        return NO_SASL
    return str(config.get("sasl.mechanism") or config.get("sasl.mechanisms") or KERBEROS).upper()


def user_of(config: Mapping[str, Any]) -> str | None:
    """Return as whom a client logs in, without secrets; None if its login has no name, as that by a certificate.

    A client with a token also states the issuer's URL, because its secret goes there.
    """
    if mechanism_of(config) != TOKEN:
        return config.get("sasl.username")
    return f"{config.get('sasl.oauthbearer.client.id')} of {config.get('sasl.oauthbearer.token.endpoint.url')}"


def checks_hosts(config: Mapping[str, Any]) -> bool:
    """Whether a client with TLS compares the host's name with the certificate; Java's empty text disables it, too."""
    return str(config.get("ssl.endpoint.identification.algorithm", "https")).strip().lower() not in ("none", "")
