"""Java clients' connection settings, said again for librdkafka."""

from __future__ import annotations

import confluent_kafka
import pytest
from kafka_dr.config.importing.client_settings import for_librdkafka, principal_of
from kafka_dr.hooks.brokers.client import client_config

PLAIN = {"bootstrap.servers": "a:9092,b:9092", "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SCRAM = PLAIN | {"sasl.jaas.config": f'{MODULE} required username="mm2-user" password="s\\"e;c=ret";'}


def test_scram_login_becomes_user_and_password() -> None:
    """A SCRAM login configuration becomes librdkafka's user name and password, escapes undone."""
    settings = for_librdkafka(SCRAM)
    assert settings.extra == PLAIN | {"sasl.username": "mm2-user", "sasl.password": 's"e;c=ret'}
    assert settings.notes == [] and principal_of(SCRAM) == "User:mm2-user"


def test_librdkafka_takes_what_was_made() -> None:
    """A librdkafka client can be made of the translated settings."""
    producer = confluent_kafka.Producer(for_librdkafka(SCRAM | {"ssl.endpoint.identification.algorithm": ""}).extra)
    assert producer.purge() is None


def test_pem_stores() -> None:
    """PEM trust and key stores, in files or inline, become librdkafka's certificates and keys."""
    in_files = for_librdkafka(
        {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/ca.pem",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "/me.pem",
            "ssl.key.password": "x",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert in_files.extra == {
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
        "ssl.key.password": "x",
        "ssl.endpoint.identification.algorithm": "none",
    }
    inline = for_librdkafka(
        {"ssl.truststore.certificates": "CA", "ssl.keystore.certificate.chain": "CERT", "ssl.keystore.key": "KEY"}
    )
    assert inline.extra == {"ssl.ca.pem": "CA", "ssl.certificate.pem": "CERT", "ssl.key.pem": "KEY"}


@pytest.mark.parametrize(
    ("java", "word"),
    [
        ({"ssl.truststore.location": "/t.jks", "ssl.truststore.password": "hunter2"}, "keytool"),
        ({"ssl.keystore.location": "/k.jks"}, "keytool"),
        ({"sasl.login.callback.handler.class": "hunter2"}, "no counterpart"),
        ({"sasl.jaas.config": 'X required username="u" password="${file:/hunter2:pw}";'}, "config provider"),
    ],
)
def test_what_a_person_must_do_is_noted_without_values(java: dict[str, str], word: str) -> None:
    """What librdkafka cannot take as it is, is noted by key, without its value."""
    notes = " ".join(for_librdkafka(java).notes)
    assert word in notes and "hunter2" not in notes


def test_pkcs12_is_taken() -> None:
    """A PKCS12 key store goes to librdkafka as it is."""
    settings = for_librdkafka(
        {"ssl.keystore.type": "pkcs12", "ssl.keystore.location": "/k.p12", "ssl.keystore.password": "x"}
    )
    assert settings == ({"ssl.keystore.password": "x", "ssl.keystore.location": "/k.p12"}, [])


def test_kerberos_login() -> None:
    """A Kerberos login becomes principal and key table; without a user name there is no principal to name."""
    java = {
        "sasl.jaas.config": (
            'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k.tab" principal="mm2@X";'
        ),
        "sasl.kerberos.service.name": "kafka",
    }
    assert for_librdkafka(java).extra == {
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": "/k.tab",
        "sasl.kerberos.principal": "mm2@X",
    }
    assert principal_of(java) is None


def test_secrets_are_not_in_the_representation() -> None:
    """Printing translated settings shows no value."""
    assert "ret" not in repr(for_librdkafka(SCRAM)) and "mm2-user" not in repr(for_librdkafka(SCRAM))


TOKEN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
    "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
}
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.mark.parametrize(
    "more",
    [
        {"sasl.jaas.config": f'{OAUTH} required clientId="mm2" clientSecret="s3cret" scope="kafka";'},
        {
            "sasl.oauthbearer.client.credentials.client.id": "mm2",
            "sasl.oauthbearer.client.credentials.client.secret": "s3cret",
            "sasl.oauthbearer.scope": "kafka",
        },
    ],
)
def test_a_login_by_token_becomes_librdkafkas(more: dict[str, str]) -> None:
    """In the login configuration, or in settings of their own; the client's id is the principal."""
    settings = for_librdkafka(TOKEN | more)
    assert settings.notes == [] and principal_of(TOKEN | more) == "User:mm2"
    assert settings.extra == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
        "sasl.oauthbearer.client.id": "mm2",
        "sasl.oauthbearer.client.secret": "s3cret",
        "sasl.oauthbearer.scope": "kafka",
    }
    assert client_config(settings.extra | {"bootstrap.servers": "b:9092"}, "east")


def test_the_issuers_ca_is_librdkafkas_for_https() -> None:
    """Java keeps it among the options of the login."""
    java = TOKEN | {"sasl.jaas.config": f'{OAUTH} required clientId="mm2" ssl.truststore.location="/ca.pem";'}
    assert for_librdkafka(java).extra["https.ca.location"] == "/ca.pem"
