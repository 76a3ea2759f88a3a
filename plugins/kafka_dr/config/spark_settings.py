"""How Spark's jobs run: the topology's key `spark`."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from kafka_dr.config.fields import Connection, Model, Setting

#: As Spark's own `spark.redaction.regex`.
_WORDS = "secret|password|token|access[.]?key"
_SECRET = re.compile(f"(?i){_WORDS}")
#: A secret within a value, such as that of `spark.executor.extraJavaOptions`.
_GIVEN_SECRET = re.compile(rf"(?i)({_WORDS})[^\s=]*=")
#: Settings whose names speak of secrets, and whose values are paths or names.
_NO_SECRET = re.compile(r"(?i).*(file|path|enabled)|spark\.kubernetes\.executor\.(secrets|secretKeyRef)\..+")
#: Settings that Switchback sets, so that logins are protected; others of `spark.network.crypto.` may be chosen.
_OWN = re.compile(
    r"spark\.(master|app\.name|submit\.deployMode|ui\.enabled|authenticate.*|network\.crypto\.(enabled|saslFallback)"
    r"|io\.encryption\.enabled|task\.maxFailures|driver\.maxResultSize)"
)


class SparkSettings(Model):
    """How Spark's jobs run.

    Attributes:
        connection: name of the Airflow connection of Spark: `local[*]`, a Spark master, YARN or Kubernetes.
        conf: settings of Spark, by its own names, such as `spark.executor.memory`; they stand on command lines, so that
            secrets are refused. `spark-defaults.conf` counts as well, where both set the same this one counts.
    """

    connection: Connection
    conf: dict[str, Setting] = Field(default_factory=dict)

    @field_validator("conf")
    @classmethod
    def _usable(cls, conf: dict[str, str]) -> dict[str, str]:
        for name, value in conf.items():
            if not re.fullmatch(r"spark\.[^\s=]+", name):
                raise ValueError(f"{name!a} is no setting of Spark: its name must begin with `spark.`")
            if _OWN.fullmatch(name):
                raise ValueError(f"{name} is set by Switchback; remove it")
            if (_SECRET.search(name) and not _NO_SECRET.fullmatch(name)) or _GIVEN_SECRET.search(value):
                raise ValueError(
                    f"{name} may hold a secret, and everybody on the machine reads command lines; put it into"
                    " spark-defaults.conf with mode 600"
                )
        return conf
