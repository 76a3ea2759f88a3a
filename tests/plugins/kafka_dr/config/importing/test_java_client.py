"""librdkafka's settings said again for Java, and back."""

from __future__ import annotations

from typing import Any

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.config.importing.client_settings import for_librdkafka
from kafka_dr.config.importing.java_client import for_java, java_options
from kafka_dr.config.importing.java_properties import read_properties
from kafka_dr.errors import BadInput

SCRAM = {"bootstrap.servers": "b:9092", "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
SCRAM |= {"sasl.username": "dr", "sasl.password": "s3cret"}
KEY = "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"


def read_back(config: dict[str, Any]) -> dict[str, str]:
    """Written as a properties file and read as Java reads it."""
    return {p.key: p.value for p in read_properties(javaproperties.dumps(for_java(config, "east")))}


@given(st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=30))
def test_a_login_comes_back_as_it_was(password: str) -> None:
    """Whatever stands in a password, a Java client logs in with the same: quotes, backslashes, blanks, any script."""
    java = read_back(SCRAM | {"sasl.password": password})
    back = for_librdkafka(java).extra
    said = back["sasl.password"].encode("utf-16", "surrogatepass").decode("utf-16")
    assert back["sasl.username"] == "dr" and said == password and back["sasl.mechanism"] == "SCRAM-SHA-512"


def test_a_line_break_in_a_password_does_not_end_it() -> None:
    """Java ends a quoted text at a line break: it is said as an escape."""
    assert 'password="a\\nb\\r\\\\n";' in for_java(SCRAM | {"sasl.password": "a\nb\r\\n"}, "east")["sasl.jaas.config"]


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-256", "scram.ScramLoginModule")]
)
def test_login_modules(mechanism: str, module: str) -> None:
    """Each mechanism has its own; librdkafka knows the key under two names."""
    config = {k: v for k, v in SCRAM.items() if k != "sasl.mechanism"} | {"sasl.mechanisms": mechanism}
    assert (
        module in for_java(config, "east")["sasl.jaas.config"]
        and for_java(config, "east")["sasl.mechanism"] == mechanism
    )


def test_kerberos_uses_the_keytab() -> None:
    """Principal and keytab stand in the login, the service's name beside it."""
    named = {"keytab": "/k", "principal": "dr@X", "service.name": "kafka"}
    kerberos = {f"sasl.kerberos.{name}": value for name, value in named.items()}
    java = for_java({"security.protocol": "sasl_plaintext", "sasl.mechanism": "GSSAPI", **kerberos}, "east")
    assert java["security.protocol"] == "SASL_PLAINTEXT" and java["sasl.kerberos.service.name"] == "kafka"
    assert 'keyTab="/k" principal="dr@X";' in java["sasl.jaas.config"]


def test_certificates_travel_as_pem() -> None:
    """Contents of PEM files, or a PKCS#12 store; the host name check stays off where it was off."""
    pem = {"ssl.ca.pem": "CA\n", "ssl.certificate.pem": "CERT\n", "ssl.key.pem": KEY, "ssl.key.password": "p"}
    java = read_back({"security.protocol": "SSL", **pem, "ssl.endpoint.identification.algorithm": "none"})
    found = (java["ssl.truststore.type"], java["ssl.truststore.certificates"], java["ssl.keystore.type"])
    assert found == ("PEM", "CA\n", "PEM")
    assert (
        java["ssl.keystore.certificate.chain"],
        java["ssl.keystore.key"],
        java["ssl.key.password"],
        java["ssl.endpoint.identification.algorithm"],
    ) == ("CERT\n", KEY, "p", "")
    stored = for_java(
        {"security.protocol": "SSL", "ssl.keystore.location": "/s.p12", "ssl.keystore.password": "p"}, "east"
    )
    seen = (stored["ssl.keystore.type"], stored["ssl.keystore.location"], stored["ssl.keystore.password"])
    assert seen == ("PKCS12", "/s.p12", "p")


@pytest.mark.parametrize(
    "more",
    [
        {"sasl.mechanism": "OAUTHBEARER"},
        {"ssl.crl.location": "/crl"},
        {"ssl.key.pem": "-----BEGIN RSA PRIVATE KEY-----"},
    ],
)
def test_what_java_cannot_be_told_is_refused_without_its_value(more: dict[str, str]) -> None:
    """A connection that would be weaker, or not work, in Java is refused; nothing secret is repeated."""
    with pytest.raises(BadInput, match="Kafka's own tools cannot use") as error:
        for_java(SCRAM | more, "east")
    assert "s3cret" not in str(error.value) and "of east's Airflow connection" in str(error.value)


def test_tuning_of_the_other_client_is_left_out() -> None:
    """Java refuses no unknown key, but what it does not know is not said."""
    found = set(for_java(SCRAM | {"socket.timeout.ms": 5, "log_level": 0}, "east"))
    assert found == {"security.protocol", "sasl.mechanism", "sasl.jaas.config"}


def test_a_login_by_token_is_said_to_java() -> None:
    """Secrets stand in the settings, never on the command line; Java may send them to this issuer only."""
    config = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "dr",
        "sasl.oauthbearer.client.secret": 's3"cret',
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
        "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
        "https.ca.location": "/ca.pem",
    }
    java = for_java(config, "east")
    assert java["sasl.oauthbearer.token.endpoint.url"] == "https://issuer/token"
    login = java["sasl.jaas.config"]
    for option in (
        'clientId="dr"',
        'clientSecret="s3\\"cret"',
        'scope="kafka"',
        'extension_logicalCluster="lkc-1"',
        'ssl.truststore.location="/ca.pem"',
    ):
        assert option in login
    assert java_options(config) == ["-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://issuer/token"]
    assert java_options(SCRAM) == []
