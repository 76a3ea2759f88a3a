"""Settings of Spark in the topology."""

from __future__ import annotations

import pytest
from kafka_dr.config.spark_settings import SparkSettings
from pydantic import ValidationError

TAKEN = {
    "spark.executor.instances": 4,
    "spark.dynamicAllocation.enabled": False,
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.kubernetes.authenticate.oauthTokenFile": "/run/token",
    "spark.kubernetes.executor.secrets.ca": "/etc/ca",
    "spark.kubernetes.executor.secretKeyRef.HOME_OF": "name:key",
    "spark.executor.extraJavaOptions": "-Djavax.net.ssl.trustStore=/etc/ca.jks",
}
REFUSED = {
    "executor.memory": ("4g", "is no setting of Spark"),
    "spark.a b": ("4g", "is no setting of Spark"),
    "spark.master": ("local", "is set by Switchback"),
    "spark.submit.deployMode": ("cluster", "is set by Switchback"),
    "spark.authenticate": (False, "is set by Switchback"),
    "spark.authenticate.secret": ("hunter2", "is set by Switchback"),
    "spark.network.crypto.enabled": (False, "is set by Switchback"),
    "spark.io.encryption.enabled": (False, "is set by Switchback"),
    "spark.ssl.keyPassword": ("hunter2", "may hold a secret"),
    "spark.hadoop.fs.s3a.secret.key": ("hunter2", "may hold a secret"),
    "spark.kubernetes.authenticate.oauthToken": ("hunter2", "may hold a secret"),
    "spark.executor.extraJavaOptions": ("-Djavax.net.ssl.trustStorePassword=hunter2", "may hold a secret"),
}


def test_settings_become_texts_as_spark_takes_them() -> None:
    """Paths of files with secrets are no secrets."""
    assert SparkSettings(connection="spark", conf=TAKEN).conf == {
        **{name: str(value) for name, value in TAKEN.items()},
        "spark.dynamicAllocation.enabled": "false",
    }


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_show_secrets_or_lift_protection_is_refused(name: str) -> None:
    """The message names the setting, and not its value."""
    value, message = REFUSED[name]
    with pytest.raises(ValidationError, match=message) as refused:
        SparkSettings(connection="spark", conf={name: value})
    assert "hunter2" not in str(refused.value)
