"""Text from outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.hooks.redaction import _SECRETS, one_line, without_secrets

PEM = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB-S3CRET\nabc\n-----END ENCRYPTED PRIVATE KEY-----"

HIDING = {
    "a JAAS line": (
        'Invalid value ScramLoginModule required username="mm2" password="S3CRET"; for configuration sasl.jaas.config'
    ),
    "a JAAS line inside JSON": r'{"trace": "ScramLoginModule required username=\"mm2\" password=\"S3CRET\";"}',
    "a JAAS line in single quotes": "required username='mm2' password='S3CRET';",
    "a JAAS line that was cut": 'ScramLoginModule required username="mm2" password="S3CR S3CRET',
    "JSON": '{"username": "svc", "password": "S3 S3CRET"}',
    "JSON of another name": '{"client_secret":"S3CRET","access_token": "S3CRET"}',
    "a property": "source.cluster.ssl.keystore.password = S3CRET",
    "a query": "postgresql://db/x?user=u&password=S3CRET&sslmode=require",
    "an address": "cannot reach http://user:S3CRET@connect:8083/",
    "an address with an at sign in the password": "http://user:p@S3CRET@connect:8083/",
    "a basic login": "Authorization: Basic S3CRET==",
    "a bearer token": "{'Authorization': 'Bearer eyJ.S3CRET-x_y'}",
    "a private key": f"cannot parse {PEM}",
    "a private key that was cut": PEM[:60],
    "a header": "X-Api-Key: S3CRET",
}


@pytest.mark.parametrize("text", HIDING.values(), ids=HIDING)
def test_secrets_are_hidden(text: str) -> None:
    """Whatever looks like a secret is replaced, and what stands around it stays."""
    assert "S3CRET" in text
    assert "S3CRET" not in without_secrets(text)
    assert "[hidden]" in one_line(text)


@pytest.mark.parametrize(
    "text",
    [
        (
            "Task 0 FAILED: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access"
            " topics: [orders]"
        ),
        "HTTP 404 Connector primary-to-standby-source not found",
        "orders-0: 12 -> 14, http://127.0.0.1:8083/connectors?expand=status",
        (
            "SASL authentication error: Authentication failed during authentication due to invalid credentials with"
            " SASL mechanism SCRAM-SHA-512"
        ),
        "no such file: /etc/passwd",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Errors stay readable."""
    assert one_line(text) == text


def test_a_secret_at_the_end_of_what_is_shown_is_not_half_shown() -> None:
    """The text is cut after the secrets were hidden."""
    for start in range(270, 310):
        shown = one_line("x" * start + " http://user:S3CRETS3CRETS3CRET@host")
        assert "S3C" not in shown and len(shown) <= 300


def test_one_line() -> None:
    """Line breaks and control characters become blanks; the length is bounded."""
    assert one_line("a\nb\tc\x00d\x1b[31m") == "a b c d [31m"
    assert len(one_line("y" * 5000)) == 300


#: What `re` takes for another letter where case does not count: K for the sign of kelvin, s for the long one, i with no
#: dot and with one.
_TWINS = str.maketrans({"k": "\u212a", "s": "\u017f", "i": "\u0131"}), str.maketrans({"i": "\u0130", "s": "S"})
_WORDS = (
    "password passwd passphrase pwd secret token credential api_key private-key access.key jaas.config "
    "Basic bearer Negotiate DIGEST"
).split()
_PARTS = st.sampled_from(
    [
        *_WORDS,
        *(word.translate(twins) for word in _WORDS for twins in _TWINS),
        *(word.upper() for word in _WORDS),
        "-----BEGIN KEY-----",
        "-----END KEY-----",
        "://a@",
        " ",
        "=",
        ": ",
        '"',
        "x",
        "{",
    ]
)


@given(st.lists(_PARTS, max_size=12).map("".join))
def test_nothing_is_overlooked_for_speed(text: str) -> None:
    """What is not looked for in a text would not have been found in it."""
    expected = text
    for _, pattern, replacement in _SECRETS:
        expected = pattern.sub(replacement, expected)
    assert without_secrets(text) == expected
