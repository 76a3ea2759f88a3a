"""Names of the kinds of login, and which kind each cluster has by the lab's choice of logins."""

from __future__ import annotations

#: By password, without TLS in the profile `small`.
SCRAM = "scram"
#: By password, over TLS.
SCRAM_TLS = "scram_tls"
#: By a token of the lab's issuer, over TLS.
OIDC = "oidc"
#: By a client's certificate; the principal is the certificate's subject.
CERTIFICATES = "certificates"

#: The choice of logins -> the kind of each cluster that does not have SCRAM.
KINDS_OF: dict[str, dict[str, str]] = {
    "scram": {},
    "oidc": {"primary": OIDC, "standby": OIDC},
    "certificates": {"primary": CERTIFICATES, "standby": CERTIFICATES},
    "mixed": {"primary": SCRAM_TLS, "standby": OIDC},
}
CHOICES = tuple(KINDS_OF)
#: Name of the issuer's process, port and certificate.
ISSUER = "issuer"
#: The audience for which the issuer's tokens are valid.
AUDIENCE = "switchback-lab"
TOKEN_PATH, KEYS_PATH = "/token", "/keys"


def has_issuer(choice: str) -> bool:
    """Whether clients of some cluster log in by tokens."""
    return OIDC in KINDS_OF[choice].values()


def broker_certificate(alias: str) -> str:
    """Return the name in the certificate of a cluster's broker."""
    return f"broker-{alias}"
