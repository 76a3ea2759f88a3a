"""Settings by which clients log in to a cluster, of librdkafka and of Java clients.

A Java client's login by password or token stands in a file of its own: `java_login` returns its text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.environment.logins.kinds import CERTIFICATES, ISSUER, KEYS_PATH, OIDC, SCRAM, TOKEN_PATH

if TYPE_CHECKING:
    from lab.environment.production.certificates import LabAuthority
    from lab.environment.state import LabRecord

_HANDLERS = "org.apache.kafka.common.security.oauthbearer"


def issuer_url(record: LabRecord) -> str:
    """Return the issuer's URL."""
    return f"https://{record.address(ISSUER)}"


def principal_name(kind: str, name: str) -> str:
    """Return what brokers call a user of the lab: `CN=name` if it logs in by a certificate, else its name."""
    return f"CN={name}" if kind == CERTIFICATES else name


def librdkafka_login(record: LabRecord, authority: LabAuthority, alias: str, name: str) -> dict[str, str]:
    """Return the librdkafka settings by which a user logs in to a cluster, with the user's password."""
    kind, ca = record.login_of(alias), str(authority.certificate)
    if kind == CERTIFICATES:
        files = authority.files_of(name)
        own = {"ssl.certificate.location": str(files.certificate), "ssl.key.location": str(files.key)}
        return {"security.protocol": "SSL", "ssl.ca.location": ca, **own}
    if kind == OIDC:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": name,
            "sasl.oauthbearer.client.secret": record.passwords[name],
            "sasl.oauthbearer.token.endpoint.url": f"{issuer_url(record)}{TOKEN_PATH}",
            "https.ca.location": ca,
            "ssl.ca.location": ca,
        }
    plain = kind == SCRAM and not record.is_production
    return {
        "security.protocol": "SASL_PLAINTEXT" if plain else "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": name,
        "sasl.password": record.passwords[name],
        **({} if plain else {"ssl.ca.location": ca}),
    }


def java_settings(record: LabRecord, authority: LabAuthority, alias: str, name: str) -> dict[str, str]:
    """Return a Java client's settings for a cluster without `sasl.jaas.config`; they contain no secret."""
    kind = record.login_of(alias)
    plain = kind == SCRAM and not record.is_production
    trust = {} if plain else {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.certificate)}
    if kind == CERTIFICATES:
        store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(authority.files_of(name).both)}
        return {"security.protocol": "SSL", **store, **trust}
    if kind == OIDC:
        token = {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": f"{_HANDLERS}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": f"{issuer_url(record)}{TOKEN_PATH}",
        }
        return {"security.protocol": "SASL_SSL", **token, **trust}
    return {
        "security.protocol": "SASL_PLAINTEXT" if plain else "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        **trust,
    }


def java_login(record: LabRecord, authority: LabAuthority, alias: str, name: str) -> str:
    """Return `sasl.jaas.config` of a Java client, with the user's password; "" if it logs in by a certificate."""
    kind, password = record.login_of(alias), record.passwords[name]
    if kind == CERTIFICATES:
        return ""
    if kind == OIDC:
        return token_login(authority, f'clientId="{name}" clientSecret="{password}"')
    return scram_login(name, password)


def scram_login(name: str, password: str) -> str:
    """Return the JAAS configuration with which a Java client logs in by SCRAM."""
    return f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{name}" password="{password}";'


def token_login(authority: LabAuthority, options: str = "") -> str:
    """Return the JAAS configuration of a Java program that asks the issuer, whose certificate it checks."""
    trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{authority.certificate}"'
    return f"{_HANDLERS}.OAuthBearerLoginModule required {options} {trust};"


def java_options(record: LabRecord) -> list[str]:
    """Return the Java options by which a program may send requests to the issuer; [] in a lab without issuer."""
    if ISSUER not in record.ports:
        return []
    urls = ",".join(f"{issuer_url(record)}{path}" for path in (TOKEN_PATH, KEYS_PATH))
    return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}"]
