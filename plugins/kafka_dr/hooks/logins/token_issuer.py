"""Gets tokens from an OpenID Connect issuer for the client kafka-python, and names why an issuer gave none.

librdkafka gets its tokens itself.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

import requests

from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.json_endpoint import root_cause
from kafka_dr.hooks.link_local import GuardedAdapter
from kafka_dr.hooks.redaction import one_line

_SECONDS = 10.0
#: A token is renewed when this share of its life has passed.
_RENEWED_AFTER = 0.8
#: How librdkafka's complaint begins when it got no token, and what stands in it if the issuer could not be reached.
NOT_ACQUIRED = "Failed to acquire SASL OAUTHBEARER token"
_AWAY = re.compile(
    r"failed to connect|could not connect|could not resolve|timed out|timeout|connection (reset|refused)|empty reply|"
    r"recv failure|send failure|\b(429|5\d\d)\b",
    re.IGNORECASE,
)


def explain_complaint(alias: str, what: str, complaint: str) -> KafkaUnavailable | None:
    """Return the error to raise if librdkafka complains that it got no token; None for another complaint.

    Args:
        alias: the cluster's name in the topology.
        what: the request that failed, for the error's message.
        complaint: the client's last connection error.
    """
    _, found, why = complaint.partition(NOT_ACQUIRED)
    why = why.removeprefix(" because").strip(": )")
    return no_token(alias, what, why, _AWAY.search(why) is not None) if found else None


def no_token(alias: str, what: str, seen: str, is_away: bool) -> KafkaUnavailable:
    """Return the error for a token that the issuer did not give.

    Args:
        is_away: whether the issuer could not be reached, or is overloaded, so that a later try may succeed.
    """
    outcome = "does not answer" if is_away else "gave Switchback no token"
    return KafkaUnavailable(
        f"{what} on {alias} failed: the issuer of tokens {outcome}",
        one_line(seen),
        f"start the issuer at sasl.oauthbearer.token.endpoint.url of {alias}'s Airflow connection, or open the network"
        " to it from the machine where the task ran"
        if is_away
        else f"compare sasl.oauthbearer.client.id, client.secret and scope in {alias}'s Airflow connection with the"
        " client at the issuer; after an error of a certificate, set https.ca.location to the file with the CA of the"
        " issuer's certificate",
        may_pass=is_away,
    )


class TokenIssuer:
    """Gets tokens by a client's id and secret; a token is used until most of its life has passed."""

    def __init__(self, config: Mapping[str, Any], alias: str) -> None:
        """Prepare; no request is sent yet.

        Args:
            config: the connection's settings, by librdkafka's keys.
            alias: the cluster's name in the topology, for errors.
        """
        self._alias = alias
        self._url, self._client, self._secret = (
            str(config[f"sasl.oauthbearer.{key}"]) for key in ("token.endpoint.url", "client.id", "client.secret")
        )
        self._scope = config.get("sasl.oauthbearer.scope")
        self._ca = str(config.get("https.ca.location") or "")
        self._extensions = _pairs(str(config.get("sasl.oauthbearer.extensions") or ""))
        self._token, self._renew_at = "", 0.0

    def __repr__(self) -> str:
        return f"TokenIssuer({self._url!r})"

    def token(self) -> str:
        """Return a token that is valid.

        Raises:
            KafkaUnavailable: the issuer does not answer (`may_pass`), or refuses the client.
        """
        if not self._token or time.monotonic() >= self._renew_at:
            asked_at = time.monotonic()
            self._token, seconds = self._new_token()
            self._renew_at = asked_at + seconds * _RENEWED_AFTER
        return self._token

    def extensions(self) -> dict[str, str]:
        """Return what the connection tells the brokers besides the token."""
        return dict(self._extensions)

    def _new_token(self) -> tuple[str, float]:
        """Return a new token, and how many seconds it is valid."""
        asked = {"grant_type": "client_credentials"} | ({"scope": str(self._scope)} if self._scope else {})
        try:
            with requests.Session() as session:
                session.trust_env = False
                session.mount("https://", GuardedAdapter())
                if self._ca not in ("", "probe"):
                    session.verify = self._ca
                answer = session.post(
                    self._url,
                    data=asked,
                    auth=(self._client, self._secret),
                    headers={"Accept": "application/json"},
                    timeout=_SECONDS,
                    allow_redirects=False,
                )
        except requests.exceptions.SSLError as error:
            raise self._none(root_cause(error), is_away=False) from None
        except (requests.ConnectionError, requests.Timeout) as error:
            raise self._none(root_cause(error), is_away=True) from None
        except OSError as error:
            raise self._none(f"{type(error).__name__}: {error}", is_away=False) from None
        document = _json_of(answer)
        if answer.status_code != requests.codes.ok or not isinstance(document.get("access_token"), str):
            told = ", ".join(str(document[key]) for key in ("error", "error_description") if document.get(key))
            seen = f"HTTP {answer.status_code} {told}".strip()
            raise self._none(seen, answer.status_code == requests.codes.too_many or answer.status_code >= 500)
        return document["access_token"], float(document.get("expires_in") or 60)

    def _none(self, seen: str, is_away: bool) -> KafkaUnavailable:
        return no_token(self._alias, "logging in", seen.replace(self._secret, "[hidden]"), is_away)


def _pairs(text: str) -> dict[str, str]:
    """Return librdkafka's list of extensions, such as `a=b,c=d`, as a map."""
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


def _json_of(answer: requests.Response) -> dict[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
