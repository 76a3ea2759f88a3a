"""The principal that brokers make of a certificate's subject."""

from __future__ import annotations

import pytest
from kafka_dr.domain.logins.certificate_principal import principal_of_subject

SUBJECT = "CN=mm2,OU=Kafka,O=Shop"


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("", "User:CN=mm2,OU=Kafka,O=Shop"),
        ("DEFAULT", "User:CN=mm2,OU=Kafka,O=Shop"),
        (r"RULE:^CN=(.*?),OU=Kafka.*$/$1/,DEFAULT", "User:mm2"),
        (r"RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L", "User:mm2@kafka"),
        (r"RULE:^CN=(.*?),.*$/$1/U", "User:MM2"),
        (r"RULE:^CN=other.*$/x/, RULE:^CN=([^,]+),.*$/$1/", "User:mm2"),
        (r"RULE:^OU=.*$/x/", None),
    ],
)
def test_the_first_rule_that_fits_counts(rules: str, principal: str | None) -> None:
    """As Kafka's documentation states the rules; a subject that no rule fits has no principal."""
    assert principal_of_subject(SUBJECT, rules) == principal


@pytest.mark.parametrize("rules", ["nonsense", "RULE:^CN=(.*$/$1/", "RULE:^CN=mm2.*$/$7/", "DEFAULT,,"])
def test_rules_that_cannot_be_read_are_refused(rules: str) -> None:
    """No principal is guessed."""
    with pytest.raises(ValueError, match="rule"):
        principal_of_subject(SUBJECT, rules)
