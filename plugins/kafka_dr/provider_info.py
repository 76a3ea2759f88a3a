"""What Airflow's provider manager reads of the wheel: connection types, with the fields of their forms.

A connection of the types `kafka` and `http` works as well: these types only have forms that name the settings.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_HOOKS = "kafka_dr.connection_types"


class ConnectionField(NamedTuple):
    """One field of a form; the connection keeps its value in the extra, under the field's name."""

    name: str
    label: str
    description: str
    secret: bool = False
    choices: tuple[str, ...] = ()

    @property
    def schema(self) -> dict[str, Any]:
        """The field's JSON schema, as Airflow's form reads it."""
        schema: dict[str, Any] = {"type": ["string", "null"]}
        if self.secret:
            schema["format"] = "password"
        if self.choices:
            schema["enum"] = [*self.choices, None]
        return schema


class ConnectionType(NamedTuple):
    """One connection type: its name, its hook's class, its title, its fields, and how Airflow's own fields appear."""

    name: str
    hook: str
    title: str
    fields: tuple[ConnectionField, ...]
    hidden: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    placeholders: tuple[tuple[str, str], ...] = ()


KAFKA = ConnectionType(
    "switchback_kafka",
    "KafkaClusterForm",
    "Kafka cluster (Switchback)",
    (
        ConnectionField("bootstrap.servers", "Bootstrap servers", "host:port, separated by commas"),
        ConnectionField(
            "security.protocol",
            "Security protocol",
            "how clients connect",
            choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        ),
        ConnectionField(
            "sasl.mechanism",
            "SASL mechanism",
            "how Switchback logs in",
            choices=("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER", "AWS_MSK_IAM"),
        ),
        ConnectionField("sasl.username", "User", "of SCRAM and PLAIN"),
        ConnectionField("sasl.password", "Password", "of SCRAM and PLAIN", secret=True),
        ConnectionField("ssl.ca.location", "CA certificates", "absolute path of a PEM file on the workers"),
        ConnectionField("ssl.certificate.location", "Client certificate", "absolute path of a PEM file on the workers"),
        ConnectionField("ssl.key.location", "Client key", "absolute path of a PEM file on the workers"),
        ConnectionField("ssl.key.password", "Password of the client key", "empty if the key has none", secret=True),
    ),
    hidden=("host", "port", "schema", "login", "password"),
    labels=(("extra", "More settings of librdkafka"),),
)
HTTP = ConnectionType(
    "switchback_http",
    "HttpServiceForm",
    "Connect worker or HTTP hook (Switchback)",
    (
        ConnectionField("verify", "CA certificates", "absolute path of a PEM file on the workers; empty: public CAs"),
        ConnectionField("cert", "Client certificate", "absolute path of a PEM file on the workers"),
        ConnectionField("key", "Client key", "absolute path of a PEM file, if it is not in the certificate's file"),
        ConnectionField("token", "Bearer token", "takes the place of login and password", secret=True),
        ConnectionField("token_file", "File with the bearer token", "absolute path on the workers"),
    ),
    labels=(("schema", "http or https"),),
    placeholders=(("host", "connect.example.com"), ("port", "8083"), ("schema", "https")),
)
DNS = ConnectionType(
    "switchback_dns",
    "DnsServerForm",
    "DNS server with a TSIG key (Switchback)",
    (
        ConnectionField(
            "algorithm",
            "Algorithm of the key",
            "empty: hmac-sha256",
            choices=("hmac-sha256", "hmac-sha384", "hmac-sha512"),
        ),
    ),
    hidden=("schema",),
    labels=(("host", "Primary server"), ("login", "Name of the key"), ("password", "Secret of the key, in base64")),
)
CONNECTION_TYPES = (KAFKA, HTTP, DNS)


def get_provider_info() -> dict[str, Any]:
    """Return what the entry point `apache_airflow_provider` states."""
    return {
        "package-name": "switchback",
        "name": "Switchback",
        "description": "Failover and failback for Kafka clusters replicated by MirrorMaker 2.",
        "connection-types": [_described(form) for form in CONNECTION_TYPES],
    }


def _described(form: ConnectionType) -> dict[str, Any]:
    return {
        "connection-type": form.name,
        "hook-class-name": f"{_HOOKS}.{form.hook}",
        "hook-name": form.title,
        "ui-field-behaviour": {
            "hidden-fields": list(form.hidden),
            "relabeling": dict(form.labels),
            "placeholders": dict(form.placeholders),
        },
        "conn-fields": {
            field.name: {"label": field.label, "description": field.description, "schema": field.schema}
            for field in form.fields
        },
    }
