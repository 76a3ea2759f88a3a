"""Refuses by name logins that the installed Kafka clients cannot do, and completes the settings of the others."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache, partial
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kafka_dr.domain.logins.client_login import (
    KERBEROS,
    MECHANISMS,
    MSK_IAM,
    NO_SASL,
    TOKEN,
    mechanism_of,
    protocol_of,
)
from kafka_dr.errors import BadInput
from kafka_dr.hooks.link_local import is_link_local

_SIGNER = "aws_msk_iam_sasl_signer"
_TOKEN_KEYS = tuple(f"sasl.oauthbearer.{key}" for key in ("method", "client.id", "client.secret", "token.endpoint.url"))


def usable_login(config: Mapping[str, Any], alias: str) -> dict[str, Any]:
    """Return a connection's settings, completed by what the Kafka client needs for the login.

    Args:
        config: the connection's settings, by librdkafka's keys; `sasl.mechanism` may also be AWS_MSK_IAM.
        alias: the cluster's name in the topology, for errors.

    Raises:
        BadInput: the installed Kafka clients cannot log in so, or settings of the login are missing. No secret is
            shown.
    """
    mechanism = mechanism_of(config)
    if mechanism == KERBEROS:
        _require_kerberos(alias)
    elif mechanism == TOKEN:
        _require_token_settings(config, alias)
    elif mechanism == MSK_IAM:
        return _with_signer(config, alias)
    elif mechanism != NO_SASL and mechanism not in MECHANISMS:
        raise _refused(alias, mechanism, f"known logins are {', '.join(MECHANISMS)}", "correct sasl.mechanism")
    return dict(config)


def _require_kerberos(alias: str) -> None:
    if not _client_has("sasl_gssapi"):
        seen = "the installed confluent-kafka was built without libsasl2, as its packages from PyPI are"
    elif find_spec("gssapi") is None:
        seen = "the Python package gssapi, which kafka-python needs for such logins, is not installed"
    else:
        return
    raise _refused(
        alias,
        KERBEROS,
        f"{seen}. Kafka's client uses {KERBEROS}, too, where sasl.mechanism is missing",
        "install libsasl2 with its module for GSSAPI, build librdkafka with it, install confluent-kafka by `pip install"
        " --no-binary confluent-kafka`, and install gssapi, on every machine where tasks run; or give Switchback a"
        " login of another kind",
    )


@cache
def _client_has(feature: str) -> bool:
    """Whether librdkafka was built with a feature, such as `sasl_gssapi`; no connection is made."""
    try:
        AdminClient({"builtin.features": feature, "log_level": 0})
    except KafkaException:
        return False
    return True


def _require_token_settings(config: Mapping[str, Any], alias: str) -> None:
    problems = [f"{key}: missing" for key in _TOKEN_KEYS if not config.get(key)]
    if config.get("sasl.oauthbearer.method", "oidc") != "oidc":
        problems.append("sasl.oauthbearer.method: not oidc")
    if config.get(_TOKEN_KEYS[-1]) and not _is_safe_url(str(config[_TOKEN_KEYS[-1]])):
        problems.append(f"{_TOKEN_KEYS[-1]}: not an https:// address without user, password and fragment")
    if problems:
        raise _refused(alias, TOKEN, "; ".join(problems), "set these keys, as runbooks/logins.md lists them")


def _is_safe_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    host = parts.hostname or ""
    return parts.scheme == "https" and bool(host) and "@" not in url and not parts.fragment and not is_link_local(host)


def _with_signer(config: Mapping[str, Any], alias: str) -> dict[str, Any]:
    if find_spec(_SIGNER) is None:
        raise _refused(
            alias,
            MSK_IAM,
            "the Python package aws-msk-iam-sasl-signer-python is not installed",
            "install it on every machine where tasks run, also on those of Spark's executors",
        )
    if protocol_of(config) != "SASL_SSL":
        raise _refused(alias, MSK_IAM, f"security.protocol is {protocol_of(config)}", "set security.protocol=SASL_SSL")
    region = region_of(str(config["bootstrap.servers"]))
    if region is None:
        raise _refused(
            alias,
            MSK_IAM,
            "neither the names of the bootstrap servers nor AWS_REGION state the region",
            "set AWS_REGION in the environment of Airflow's tasks",
        )
    others = {key: value for key, value in config.items() if key != "sasl.mechanisms"}
    return {**others, "sasl.mechanism": TOKEN, "oauth_cb": partial(_signed_token, region)}


def region_of(servers: str) -> str | None:
    """Return the AWS region in the names of MSK's brokers, else that of the environment; None if neither states it."""
    named = re.search(r"\.kafka(?:-serverless)?\.([a-z]+(?:-[a-z]+)+-\d+)\.amazonaws\.com", servers)
    return named.group(1) if named else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def _signed_token(region: str, _settings: str) -> tuple[str, float]:
    """Return a token, signed with the machine's AWS credentials, and its end in seconds since 1970."""
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 (an extra, slow to import)

    token, end_ms = MSKAuthTokenProvider.generate_auth_token(region)
    return token, end_ms / 1000


def _refused(alias: str, mechanism: str, seen: str, change: str) -> BadInput:
    return BadInput(
        f"the Kafka clients of Switchback cannot log in to {alias} by {mechanism}",
        seen,
        f"{change}; the login stands in the extra of {alias}'s Airflow connection",
    )
