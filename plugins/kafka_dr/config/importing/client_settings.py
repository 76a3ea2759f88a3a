"""Translates a Java Kafka client's connection settings into librdkafka settings for an Airflow connection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kafka_dr.domain.logins.client_login import TOKEN

CONNECTION_KEY = re.compile(r"bootstrap\.servers|security\.protocol|(sasl|ssl)\..+")

_SAME = {
    "bootstrap.servers",
    "security.protocol",
    "sasl.mechanism",
    "sasl.kerberos.service.name",
    "ssl.cipher.suites",
    "ssl.key.password",
    "ssl.keystore.password",
}
_RENAMED = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.scope": "sasl.oauthbearer.scope",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
_READ_ELSEWHERE = {
    "sasl.jaas.config",
    "ssl.endpoint.identification.algorithm",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.keystore.location",
    "ssl.keystore.type",
}
_JAAS = {
    "username": "sasl.username",
    "password": "sasl.password",
    "principal": "sasl.kerberos.principal",
    "keyTab": "sasl.kerberos.keytab",
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
    "ssl.truststore.location": "https.ca.location",
}
_TOKEN_HANDLER = re.compile(r"org\.apache\.kafka\..+\.OAuthBearerLoginCallbackHandler")
_JAAS_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))""", re.DOTALL)


class ClientSettings(NamedTuple):
    """One cluster's settings for an Airflow connection.

    Attributes:
        extra: librdkafka's settings, with secrets.
        notes: sentences on what a person has to do, without secrets.
    """

    extra: dict[str, str]
    notes: list[str]

    def __repr__(self) -> str:
        return f"ClientSettings(extra=<{len(self.extra)} settings, not shown>, notes={self.notes!r})"


def for_librdkafka(java: Mapping[str, str]) -> ClientSettings:
    """Return one cluster's Java connection settings as librdkafka settings.

    The notes name keys without a counterpart in librdkafka, and values that a config provider would have to read.
    """
    extra = {key: value for key, value in java.items() if key in _SAME}
    extra |= {_RENAMED[key]: value for key, value in java.items() if key in _RENAMED}
    extra |= _jaas(java.get("sasl.jaas.config", ""))
    if java.get("sasl.mechanism") == TOKEN and "sasl.oauthbearer.token.endpoint.url" in extra:
        extra["sasl.oauthbearer.method"] = "oidc"
    notes: list[str] = []
    # An empty text disables the host name check in Java, `none` in librdkafka; without the key librdkafka would check.
    if "ssl.endpoint.identification.algorithm" in java:
        extra["ssl.endpoint.identification.algorithm"] = java["ssl.endpoint.identification.algorithm"] or "none"
    _stores(java, extra, notes)
    notes += [
        f"{key} has no counterpart in librdkafka; if a login fails, add the librdkafka setting that replaces this key"
        for key, value in java.items()
        if not _known(key) and not (key == "sasl.login.callback.handler.class" and _TOKEN_HANDLER.fullmatch(value))
    ]
    notes += [
        f"{key} refers to a config provider (${{...}}); put the value itself into the connection"
        for key in extra
        if "${" in extra[key]
    ]
    login = java.get("sasl.jaas.config", "")
    if "${" in login and not _jaas(login):
        notes.append(
            "sasl.jaas.config refers to a config provider (${...}); put sasl.username and sasl.password into the"
            " connection"
        )
    return ClientSettings(extra, notes)


def principal_of(java: Mapping[str, str]) -> str | None:
    """Return the Kafka principal that logs in with these Java settings; None if they contain no SASL user name.

    Of a login by token it is the client's id, the usual subject of tokens.
    """
    login = _jaas(java.get("sasl.jaas.config", ""))
    stated = java.get("sasl.oauthbearer.client.credentials.client.id", "")
    username = login.get("sasl.username") or login.get("sasl.oauthbearer.client.id") or stated
    return f"User:{username}" if username and "${" not in username else None


def _jaas(config: str) -> dict[str, str]:
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted else bare for name, quoted, bare in _JAAS_OPTION.findall(config)
    }
    return {_JAAS[name]: value for name, value in options.items() if name in _JAAS}


def _stores(java: Mapping[str, str], extra: dict[str, str], notes: list[str]) -> None:
    if location := java.get("ssl.truststore.location"):
        if java.get("ssl.truststore.type", "JKS").upper() == "PEM":
            extra["ssl.ca.location"] = location
        else:
            notes.append(
                "ssl.truststore.location is not a PEM file; export its certificates with keytool and set"
                " ssl.ca.location"
            )
    if location := java.get("ssl.keystore.location"):
        kind = java.get("ssl.keystore.type", "JKS").upper()
        if kind == "PKCS12":
            extra["ssl.keystore.location"] = location
        elif kind == "PEM":
            extra |= {"ssl.certificate.location": location, "ssl.key.location": location}
        else:
            notes.append(
                "ssl.keystore.location is neither PEM nor PKCS12; convert the keystore with keytool and set"
                " ssl.keystore.location"
            )


def _known(key: str) -> bool:
    return key in _SAME or key in _RENAMED or key in _READ_ELSEWHERE
