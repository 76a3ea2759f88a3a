"""Translates a connection's librdkafka settings into settings of a Java client, for Kafka's own tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.logins.client_login import KERBEROS, TOKEN, mechanism_of, protocol_of
from kafka_dr.errors import BadInput

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    KERBEROS: "com.sun.security.auth.module.Krb5LoginModule",
}
_TOKENS, _TOKEN_CLASSES = "sasl.oauthbearer", "org.apache.kafka.common.security.oauthbearer"
_SAME = ("sasl.kerberos.service.name", "ssl.key.password", "ssl.keystore.location", "ssl.keystore.password")
_PEM = {
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}


def for_java(config: Mapping[str, Any], alias: str) -> dict[str, str]:
    """Return the Java settings with which a client logs in to a cluster; librdkafka's tuning settings are left out.

    Args:
        config: librdkafka settings; PEM by contents, not by file (`ssl.ca.pem` instead of `ssl.ca.location`).
        alias: the cluster's name in the topology, for errors.

    Raises:
        BadInput: the connection uses a setting that Java clients do not have. The error shows no secret.
    """
    if "ssl.crl.location" in config:
        raise _unsupported(alias, "ssl.crl.location", "a Java client has no setting for revoked certificates")
    protocol = protocol_of(config)
    java = {"security.protocol": protocol}
    if protocol.startswith("SASL"):
        java |= _login(config, alias)
    java |= {key: str(config[key]) for key in _SAME if key in config}
    java |= {_PEM[key]: _pem(key, str(config[key]), alias) for key in _PEM if key in config}
    java |= _store_types(java)
    if "ssl.endpoint.identification.algorithm" in config:
        # An empty text disables the host name check in Java, `none` in librdkafka.
        java["ssl.endpoint.identification.algorithm"] = str(config["ssl.endpoint.identification.algorithm"]).replace(
            "none", ""
        )
    return java


def _login(config: Mapping[str, Any], alias: str) -> dict[str, str]:
    mechanism = mechanism_of(config)
    if mechanism == TOKEN:
        return _token_login(config, alias)
    if mechanism not in _LOGIN_MODULES:
        supported = ", ".join([*_LOGIN_MODULES, TOKEN])
        raise _unsupported(alias, "sasl.mechanism", f"{mechanism!a} is not supported; supported: {supported}")
    options = {"username": config.get("sasl.username", ""), "password": config.get("sasl.password", "")}
    if mechanism == KERBEROS:
        options = {
            "useKeyTab": "true",
            "storeKey": "true",
            "keyTab": config.get("sasl.kerberos.keytab", ""),
            "principal": config.get("sasl.kerberos.principal", ""),
        }
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": _jaas(_LOGIN_MODULES[mechanism], options)}


def _token_login(config: Mapping[str, Any], alias: str) -> dict[str, str]:
    """Return the settings with which a Java client of Kafka 3.4 or newer gets tokens from the issuer."""
    keys = [f"{_TOKENS}.{key}" for key in ("client.id", "client.secret", "token.endpoint.url")]
    if missing := [key for key in keys if key not in config]:
        raise _unsupported(alias, f"sasl.mechanism={TOKEN}", f"missing: {', '.join(missing)}", "set these keys")
    options = {"clientId": config[f"{_TOKENS}.client.id"], "clientSecret": config[f"{_TOKENS}.client.secret"]}
    if scope := config.get(f"{_TOKENS}.scope"):
        options["scope"] = scope
    if ca := config.get("https.ca.location"):
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": ca}
    extensions = str(config.get(f"{_TOKENS}.extensions") or "").split(",")
    options |= {f"extension_{name}": value for name, _, value in (pair.partition("=") for pair in extensions if pair)}
    return {
        "sasl.mechanism": TOKEN,
        "sasl.jaas.config": _jaas(f"{_TOKEN_CLASSES}.OAuthBearerLoginModule", options),
        "sasl.login.callback.handler.class": f"{_TOKEN_CLASSES}.OAuthBearerLoginCallbackHandler",
        f"{_TOKENS}.token.endpoint.url": str(config[f"{_TOKENS}.token.endpoint.url"]),
    }


def java_options(config: Mapping[str, Any]) -> list[str]:
    """Return the options of Java itself that a login needs: the issuer's URL, to which Kafka sends no secret else."""
    url = config.get(f"{_TOKENS}.token.endpoint.url") if mechanism_of(config) == TOKEN else None
    return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"] if url else []


def _jaas(module: str, options: Mapping[str, Any]) -> str:
    return f"{module} required {' '.join(f'{name}={_quoted(str(value))}' for name, value in options.items())};"


def _quoted(value: str) -> str:
    """Quote a value for Java's StreamTokenizer; a line break, which would end the quoted text, becomes an escape."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _pem(key: str, text: str, alias: str) -> str:
    if key == "ssl.key.pem" and "BEGIN PRIVATE KEY" not in text and "BEGIN ENCRYPTED PRIVATE KEY" not in text:
        raise _unsupported(
            alias,
            "the private key (ssl.key.pem, or the file in ssl.key.location)",
            "a Java client reads only a key in PKCS#8, which begins with BEGIN PRIVATE KEY or BEGIN ENCRYPTED PRIVATE"
            " KEY",
            "convert the key with `openssl pkcs8 -topk8 -in OLD.pem -out NEW.pem` (add -nocrypt if ssl.key.password is"
            " not set), and put the new key into the connection",
        )
    return text


def _store_types(java: Mapping[str, str]) -> dict[str, str]:
    types = {"ssl.truststore.type": "PEM"} if "ssl.truststore.certificates" in java else {}
    if "ssl.keystore.key" in java:
        return types | {"ssl.keystore.type": "PEM"}
    return types | ({"ssl.keystore.type": "PKCS12"} if "ssl.keystore.location" in java else {})


def _unsupported(alias: str, key: str, why: str, change: str = "change this setting") -> BadInput:
    return BadInput(
        f"Kafka's own tools cannot use {key} of {alias}'s Airflow connection",
        why,
        f"{change}; or remove `kafka_tools` from the topology, and start a new run without abort_open_transactions",
    )
