"""Logins that the installed Kafka clients cannot do are refused by name, before anything is touched."""

from __future__ import annotations

import base64
import pickle
import time

import pytest
from kafka_dr.errors import BadInput
from kafka_dr.hooks.brokers.client import client_config
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.logins import kafka_login
from kafka_dr.hooks.logins.kafka_login import region_of, usable_login
from kafka_dr.hooks.logins.python_client import for_python
from kafka_dr_spark.reading.msk_login import with_signer
from kafka_dr_spark.reading.windows import KafkaAccess

SERVERS = {"bootstrap.servers": "b-1.demo.x1.c2.kafka.eu-west-1.amazonaws.com:9098", "security.protocol": "SASL_SSL"}
TOKEN = {
    **SERVERS,
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "dr",
    "sasl.oauthbearer.client.secret": "hunter2",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token",
}


@pytest.mark.parametrize("mechanism", [{"sasl.mechanism": "GSSAPI"}, {}])
def test_kerberos_is_refused_with_what_to_install(mechanism: dict[str, str]) -> None:
    """By name, also where it is librdkafka's default: the installed client has no library for it."""
    with pytest.raises(BadInput, match="cannot log in to east by GSSAPI") as refused:
        KafkaCluster("east", SERVERS | mechanism)
    assert "libsasl2" in str(refused.value) and "--no-binary confluent-kafka" in str(refused.value)


def test_kerberos_is_taken_by_a_client_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both client libraries need their part of it."""
    monkeypatch.setattr(kafka_login, "_client_has", lambda feature: feature == "sasl_gssapi")
    with pytest.raises(BadInput, match="package gssapi"):
        usable_login(SERVERS | {"sasl.mechanism": "GSSAPI"}, "east")
    monkeypatch.setattr(kafka_login, "find_spec", lambda name: name)
    assert usable_login(SERVERS | {"sasl.mechanism": "GSSAPI"}, "east") == SERVERS | {"sasl.mechanism": "GSSAPI"}


def test_the_installed_client_is_asked_for_its_features() -> None:
    """The wheel has tokens, and no Kerberos."""
    assert kafka_login._client_has("sasl_oauthbearer") and not kafka_login._client_has("sasl_gssapi")


def test_an_unknown_mechanism_is_refused() -> None:
    """By name, with those that are known."""
    with pytest.raises(BadInput, match=r"by MAGIC.*SCRAM-SHA-512"):
        usable_login(SERVERS | {"sasl.mechanism": "MAGIC"}, "east")


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"sasl.oauthbearer.client.secret": None}, "sasl.oauthbearer.client.secret: missing"),
        ({"sasl.oauthbearer.method": None}, "sasl.oauthbearer.method: missing"),
        ({"sasl.oauthbearer.method": "default"}, "not oidc"),
        ({"sasl.oauthbearer.token.endpoint.url": "http://issuer.example/token"}, "not an https:// address"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://u:hunter2@issuer/token"}, "not an https:// address"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://169.254.169.254/token"}, "not an https:// address"),
    ],
)
def test_a_login_by_token_that_is_incomplete_or_unsafe_is_refused(change: dict[str, str | None], seen: str) -> None:
    """The secret goes to the issuer only, encrypted; no secret is shown."""
    config = {key: value for key, value in (TOKEN | change).items() if value is not None}
    with pytest.raises(BadInput, match="cannot log in to east by OAUTHBEARER") as refused:
        client_config(config, "east")
    assert seen in str(refused.value) and "hunter2" not in str(refused.value)


def test_a_login_by_token_is_taken_by_both_clients() -> None:
    """As it is by librdkafka; kafka-python gets a provider of tokens, and no password."""
    KafkaCluster("east", TOKEN | {"sasl.oauthbearer.scope": "kafka"})
    settings = for_python(client_config(TOKEN, "east"), "east")
    assert settings["sasl_mechanism"] == "OAUTHBEARER" and "sasl_plain_password" not in settings
    assert "hunter2" not in repr(settings)


def test_keys_of_tokens_go_with_tokens_only() -> None:
    """Else a key that sends a secret to a URL would pass unseen."""
    config = TOKEN | {"sasl.mechanism": "PLAIN", "https.ca.location": "/ca.pem"}
    with pytest.raises(BadInput, match=r"https.ca.location: not allowed.*token.endpoint.url: not allowed"):
        client_config(config, "east")


@pytest.mark.parametrize("key", ["enable.ssl.certificate.verification", "sasl.oauthbearer.assertion.file"])
def test_what_turns_checks_off_or_reads_files_stays_refused(key: str) -> None:
    """Whatever the login."""
    with pytest.raises(BadInput, match=f"{key}: not allowed"):
        client_config(TOKEN | {key: "false"}, "east")


class TestIam:
    """Logins to Amazon MSK by IAM, as far as they can be tried without AWS."""

    CONFIG = SERVERS | {"sasl.mechanism": "AWS_MSK_IAM"}

    @pytest.fixture(autouse=True)
    def credentials(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Credentials of nobody, as the machine's environment gives them."""
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            monkeypatch.delenv(name, raising=False)

    def test_without_the_signer_it_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By name, with the package to install."""
        monkeypatch.setattr(kafka_login, "find_spec", lambda _: None)
        with pytest.raises(BadInput, match=r"by AWS_MSK_IAM.*aws-msk-iam-sasl-signer-python is not installed"):
            client_config(self.CONFIG, "east")

    def test_with_the_signer_the_clients_show_signed_tokens(self) -> None:
        """A URL that is signed for the brokers' region, with the machine's credentials, in both libraries and Spark."""
        settings = client_config(self.CONFIG, "east")
        provider = for_python(settings, "east")["sasl_oauth_token_provider"]
        spark = with_signer(self.CONFIG)
        assert settings["sasl.mechanism"] == spark["sasl.mechanism"] == "OAUTHBEARER"
        for token in (settings["oauth_cb"]("")[0], provider.token(), spark["oauth_cb"]("")[0]):
            url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
            assert "https://kafka.eu-west-1.amazonaws.com/" in url and "kafka-cluster%3AConnect" in url
            assert "AKIDEXAMPLE" in url and "hunter2" not in url
        assert 60 < settings["oauth_cb"]("")[1] - time.time() < 3600

    def test_without_tls_it_is_refused(self) -> None:
        """MSK takes it over TLS only."""
        with pytest.raises(BadInput, match="set security.protocol=SASL_SSL"):
            client_config(self.CONFIG | {"security.protocol": "SASL_PLAINTEXT"}, "east")

    def test_the_region_is_that_of_the_brokers_names(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Else that of the environment; without either the login is refused."""
        assert region_of("boot-x.c1.kafka-serverless.us-gov-west-1.amazonaws.com:9098") == "us-gov-west-1"
        with pytest.raises(BadInput, match="AWS_REGION"):
            client_config(self.CONFIG | {"bootstrap.servers": "kafka.example:9098"}, "east")
        monkeypatch.setenv("AWS_REGION", "eu-north-1")
        assert region_of("kafka.example:9098") == "eu-north-1"

    def test_other_logins_pass_spark_unchanged(self) -> None:
        """Nothing is added."""
        assert with_signer(TOKEN) == TOKEN

    def test_spark_sends_the_login_to_its_workers(self) -> None:
        """What tasks carry can be pickled, and makes tokens there."""
        access = pickle.loads(pickle.dumps(KafkaAccess(None, self.CONFIG)))
        assert access._settings["target"]["oauth_cb"]("")[0]
