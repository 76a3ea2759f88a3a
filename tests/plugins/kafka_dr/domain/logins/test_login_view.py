"""What is weak about logins, in sentences for the approver."""

from __future__ import annotations

import pytest
from kafka_dr.domain.logins.client_login import mechanism_of, user_of
from kafka_dr.domain.logins.login_view import LoginView, connector_logins, kafka_login, login_notes

SCRAM = {"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "dr"}
SAFE = {"primary": kafka_login("kafka_primary", SCRAM), "standby": kafka_login("kafka_standby", SCRAM)}


@pytest.mark.parametrize(
    ("config", "mechanism"),
    [
        ({}, ""),
        ({"security.protocol": "ssl"}, ""),
        ({"security.protocol": "SASL_SSL"}, "GSSAPI"),
        ({"security.protocol": "sasl_plaintext", "sasl.mechanisms": "plain"}, "PLAIN"),
    ],
)
def test_the_mechanism_is_what_the_client_uses(config: dict[str, str], mechanism: str) -> None:
    """Without a name librdkafka takes Kerberos; without SASL a mechanism has no effect."""
    assert mechanism_of(config | {"sasl.password": "x"}) == mechanism


def test_a_client_with_a_token_is_named_with_its_issuer() -> None:
    """Its secret goes there, so another issuer is another login."""
    token = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.client.id": "dr",
        "sasl.oauthbearer.client.secret": "hunter2",
        "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
    }
    assert user_of(token) == "dr of https://issuer/token" and user_of(SCRAM) == "dr"


def test_safe_logins_have_no_note() -> None:
    """TLS, checked hosts, the same mechanism, public CAs."""
    assert login_notes([*SAFE.values(), LoginView("connect", True, "password")], SAFE, []) == []


def test_logins_without_tls_are_named_with_their_mechanism() -> None:
    """Those of the product, of connectors and over HTTP; a client without a login is none."""
    config = {
        "source.cluster.security.protocol": "SASL_PLAINTEXT",
        "source.cluster.sasl.mechanism": "PLAIN",
        "target.cluster.bootstrap.servers": "b:9092",
    }
    views = [*connector_logins("mm2", config), LoginView("connect_x", False, "password"), LoginView("drain", False)]
    (note,) = login_notes(views, SAFE, [])
    assert "without TLS" in note and "mm2 (source.cluster) (PLAIN)" in note and "connect_x (password)" in note
    assert "drain" not in note and "target" not in note


@pytest.mark.parametrize("off", ["none", "", "NONE"])
def test_host_names_that_nobody_checks_are_named(off: str) -> None:
    """As librdkafka and as Java says it; without TLS there is nothing to check."""
    config = SCRAM | {"ssl.endpoint.identification.algorithm": off}
    (note,) = login_notes([kafka_login("kafka_east", config)], SAFE, [])
    assert "Host names are not checked" in note and "kafka_east" in note
    assert kafka_login("x", config | {"security.protocol": "sasl_plaintext"}).checks_hosts


def test_a_ca_that_one_side_trusts_is_named_with_that_side() -> None:
    """Compared by the certificate, not by its name, which two CAs may share."""
    views = {
        "primary": kafka_login("p", SCRAM, {"a1": "CN=ours", "c": "CN=both"}),
        "standby": kafka_login("s", SCRAM, {"a2": "CN=ours", "c": "CN=both"}),
    }
    notes = login_notes([], views, [])
    assert [note.split(":")[0] for note in notes] == [
        f"Only the connection of {alias} trusts these CAs" for alias in ("primary", "standby")
    ]
    assert all("CN=ours" in note and "CN=both" not in note for note in notes)


def test_other_ways_to_log_in_are_named_with_the_users_that_are_unknown() -> None:
    """A user with a password on the source may have a token on the target, or none."""
    views = SAFE | {"standby": LoginView("s", True, "OAUTHBEARER")}
    (note,) = login_notes([], views, ["orders"])
    assert "primary: SCRAM-SHA-512, standby: OAUTHBEARER" in note and "no SCRAM user of orders" in note
    (note,) = login_notes([], SAFE | {"standby": LoginView("s", True)}, [])
    assert "standby: certificate, or none" in note and "no SCRAM user" not in note
