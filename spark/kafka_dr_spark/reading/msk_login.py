"""Logins to Amazon MSK by IAM, which librdkafka does by tokens that a signer makes on the machine of the task."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

_IAM = "AWS_MSK_IAM"


def with_signer(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return client settings for librdkafka; unchanged unless the login is by IAM.

    Raises:
        ImportError: the package aws-msk-iam-sasl-signer-python is not installed on this machine.
    """
    if _IAM not in (settings.get("sasl.mechanism"), settings.get("sasl.mechanisms")):
        return dict(settings)
    import aws_msk_iam_sasl_signer  # noqa: F401, PLC0415 (an extra, slow to import; a missing one is told here)

    servers = str(settings.get("bootstrap.servers"))
    named = re.search(r"\.kafka(?:-serverless)?\.([a-z]+(?:-[a-z]+)+-\d+)\.amazonaws\.com", servers)
    region = named.group(1) if named else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    others = {key: value for key, value in settings.items() if key != "sasl.mechanisms"}
    return {**others, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": partial(_signed_token, region)}


def _signed_token(region: str | None, _settings: str) -> tuple[str, float]:
    """Return a token and its end in seconds since 1970."""
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 (see above)

    token, end_ms = MSKAuthTokenProvider.generate_auth_token(region)
    return token, end_ms / 1000
