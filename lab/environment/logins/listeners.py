"""What a broker of the profile `small` needs for the kind of login of its cluster."""

from __future__ import annotations

from lab.environment.logins.clients import issuer_url, scram_login, token_login
from lab.environment.logins.kinds import AUDIENCE, CERTIFICATES, KEYS_PATH, OIDC, SCRAM, broker_certificate
from lab.environment.production.profile import KEY_STORES
from lab.environment.state import PRINCIPALS, Lab

_HANDLERS = "org.apache.kafka.common.security.oauthbearer"
#: A client must show a new token so often, in milliseconds: less than a token is valid.
_AGAIN_MS = 60_000


def listener_settings(lab: Lab, alias: str, listeners: list[str]) -> dict[str, object]:
    """Return a broker's settings of its listeners for clients, which it uses itself, too.

    Args:
        lab: the lab.
        alias: the cluster's alias.
        listeners: names of these listeners.
    """
    record, kind = lab.load(), lab.load().login_of(alias)
    protocol = {CERTIFICATES: "SSL", SCRAM: "SASL_PLAINTEXT"}.get(kind, "SASL_SSL")
    protocols = [*(f"{one}:{protocol}" for one in listeners), "CONTROLLER:PLAINTEXT"]
    settings: dict[str, object] = {"listener.security.protocol.map": ",".join(protocols)}
    if kind != SCRAM:
        settings |= _tls(lab, alias)
    if kind == CERTIFICATES:
        # On the controller listener (PLAINTEXT) the node is ANONYMOUS.
        users = ["User:CN=admin", f"User:CN={broker_certificate(alias)}", "User:ANONYMOUS"]
        return settings | {"ssl.client.auth": "required", "super.users": ";".join(users)}
    mechanisms = ["SCRAM-SHA-512", *(["OAUTHBEARER"] if kind == OIDC else [])]
    settings |= {
        "sasl.enabled.mechanisms": ",".join(mechanisms),
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    }
    login = scram_login("admin", record.passwords["admin"])
    settings |= {f"listener.name.{name.lower()}.scram-sha-512.sasl.jaas.config": login for name in listeners}
    return settings | (_validator(lab, listeners) if kind == OIDC else {})


def scram_users(lab: Lab, alias: str) -> tuple[str, ...]:
    """Return the users of a cluster who have a password: all, or with tokens only the one that the broker uses."""
    kind = lab.load().login_of(alias)
    return {CERTIFICATES: (), OIDC: ("admin",)}.get(kind, PRINCIPALS)


def _validator(lab: Lab, listeners: list[str]) -> dict[str, object]:
    """Return the settings by which a broker verifies tokens; a token's subject is the principal."""
    url = issuer_url(lab.load())
    handler = f"{_HANDLERS}.OAuthBearerValidatorCallbackHandler"
    # The broker itself logs in by SCRAM, but does not start without a subject of a token that it never shows.
    login = token_login(lab.authority, 'unsecuredLoginStringClaim_sub="admin"')
    names = [f"listener.name.{name.lower()}.oauthbearer" for name in listeners]
    return {
        **{f"{name}.sasl.server.callback.handler.class": handler for name in names},
        **{f"{name}.sasl.jaas.config": login for name in names},
        **{f"{name}.connections.max.reauth.ms": _AGAIN_MS for name in names},
        "sasl.oauthbearer.jwks.endpoint.url": f"{url}{KEYS_PATH}",
        "sasl.oauthbearer.expected.issuer": url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }


def _tls(lab: Lab, alias: str) -> dict[str, object]:
    password = lab.load().passwords[KEY_STORES]
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": lab.authority.key_store(broker_certificate(alias), password),
        "ssl.keystore.password": password,
        "ssl.key.password": password,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": lab.authority.certificate,
    }
