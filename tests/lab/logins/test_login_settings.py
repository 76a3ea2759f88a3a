"""What each choice of logins makes of brokers, clients, topology and ACL entries; and the issuer."""

from __future__ import annotations

from pathlib import Path

import jwt
import pytest
from jwt import PyJWK
from kafka_dr.hooks.brokers.client import client_config

from lab.environment.acls import client_rights
from lab.environment.bring_up import PORTS, make_record, up
from lab.environment.brokers import format_command
from lab.environment.connect import connector_config, write_login
from lab.environment.logins.issuer import IssuerServer
from lab.environment.logins.kinds import AUDIENCE, CHOICES, ISSUER
from lab.environment.logins.listeners import listener_settings
from lab.environment.logins.set_up import named_as_logged_in
from lab.environment.production.certificates import LabAuthority
from lab.environment.state import ALIASES, Lab
from lab.environment.topology_file import topology_settings
from lab.errors import LabError


@pytest.fixture(params=CHOICES)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """A lab that nobody starts, with each choice."""
    made = Lab(tmp_path)
    ports = {name: 20_000 + number for number, name in enumerate([*PORTS, ISSUER])}
    made.save(make_record("identity", "read_uncommitted", ports, logins=request.param))
    for name in (ISSUER, "mm2", *(f"broker-{alias}" for alias in ALIASES)):
        made.authority.issue_once(name)
    return made


def test_no_connector_and_no_listener_shows_a_secret_of_mirror_maker(lab: Lab) -> None:
    """Connect's REST API shows configurations: secrets stand in a file of mode 0600."""
    passwords = lab.load().passwords
    config = connector_config(lab, *ALIASES, "source")
    assert not any(passwords["mm2"] in value for value in config.values())
    write_login(lab)
    logins = lab.load().logins
    kinds = {config[f"{end}.cluster.security.protocol"] for end in ("source", "target")}
    assert kinds == {"scram": {"SASL_PLAINTEXT"}, "certificates": {"SSL"}}.get(logins, {"SASL_SSL"})


def test_the_product_takes_every_clients_login(lab: Lab) -> None:
    """Settings of all users on both clusters; principals in the topology are those of the ACL entries."""
    named = topology_settings(lab)["clusters"]
    for alias in ALIASES:
        assert client_config(lab.client_properties(alias, "orchestrator"), alias)
        principals = {entry.principal for entry in named_as_logged_in(lab, alias, list(client_rights()))}
        assert set(named[alias]["principals"]["mirror_maker"]) <= principals
        by_certificate = lab.load().logins == "certificates"
        assert ("User:CN=producer" in principals) is by_certificate is ("User:producer" not in principals)


def test_brokers_with_tls_verify_who_logs_in(lab: Lab) -> None:
    """Certificates are demanded where they are the login; passwords exist only for who uses one."""
    for alias in ALIASES:
        settings, kind = listener_settings(lab, alias, ["CLIENTS"]), lab.load().login_of(alias)
        assert ("ssl.keystore.location" in settings) is (kind != "scram")
        assert (settings.get("ssl.client.auth") == "required") is (kind == "certificates")
        assert ("sasl.oauthbearer.jwks.endpoint.url" in settings) is (kind == "oidc")
        format_command(lab, alias)
        arguments = (lab.home / "arguments" / f"format-broker-{alias}").read_text()
        assert arguments.count("--add-scram") == {"oidc": 1, "certificates": 0}.get(kind, 7)


def test_combinations_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    """By name, before anything starts."""
    with pytest.raises(LabError, match="logins oidc"):
        up(tmp_path, logins="oidc", profile="production")
    with pytest.raises(LabError, match="logins mixed"):
        up(tmp_path, logins="mixed", dedicated=True)
    with pytest.raises(LabError, match="newest Kafka"):
        up(tmp_path, logins="oidc", kafka={"primary": "3.9.2"})


def test_a_token_is_verified_by_the_issuers_public_key(tmp_path: Path) -> None:
    """Its subject is the client; an issuer that is started again signs by the same key."""
    authority = LabAuthority(tmp_path)
    authority.issue_once(ISSUER)
    files = authority.files_of(ISSUER)
    servers = [IssuerServer("127.0.0.1", 0, files.certificate, files.key, {"dr": "s3cret"}, 60) for _ in range(2)]
    answer = servers[0].token_for("dr", "s3cret", "kafka")
    assert answer is not None and servers[0].token_for("dr", "wrong", "kafka") is None
    (key,) = servers[1].public_keys()["keys"]
    claims = jwt.decode(answer["access_token"], PyJWK(key).key, algorithms=["ES256"], audience=AUDIENCE)
    assert (claims["sub"], claims["iss"]) == ("dr", servers[0].url)
    for server in servers:
        server.server_close()
