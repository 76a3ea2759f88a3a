"""As which principal brokers know an application's login."""

from __future__ import annotations

import pytest
from kafka_dr.hooks.application_client import principal_of


@pytest.mark.parametrize(
    ("settings", "principal"),
    [
        ({}, "User:ANONYMOUS"),
        ({"security.protocol": "PLAINTEXT"}, "User:ANONYMOUS"),
        ({"security.protocol": "SASL_SSL", "sasl.username": "orders"}, "User:orders"),
        ({"security.protocol": "sasl_plaintext"}, ""),
        ({"security.protocol": "ssl"}, ""),
    ],
)
def test_the_principal_follows_from_the_settings(settings: dict[str, str], principal: str) -> None:
    """But of a certificate, which brokers map to a name by rules of their own."""
    assert principal_of(settings) == principal
