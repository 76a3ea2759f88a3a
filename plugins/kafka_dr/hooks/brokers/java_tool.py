"""Runs Kafka's own Java tools, for requests that the Python client lacks.

A tool gets the connection's settings in an unlinked temporary file: no other user can read the file, and nothing of the
file remains once the tool and this process have ended or were killed.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import javaproperties

from kafka_dr.config.importing.java_client import for_java, java_options
from kafka_dr.domain.drill.scope import DrillScope
from kafka_dr.domain.logins.client_login import TOKEN, mechanism_of
from kafka_dr.errors import BadInput, KafkaUnavailable
from kafka_dr.hooks.brokers.client import client_config
from kafka_dr.hooks.logins.token_issuer import TokenIssuer
from kafka_dr.hooks.redaction import without_secrets

_FLAGS = (
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dfile.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
    "-Dsun.stdout.encoding=UTF-8",
)
_INHERITED = ("PATH", "JAVA_HOME", "HOME", "TMPDIR", "KRB5_CONFIG")
_FILES = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
}
_SECONDS = 30.0
_LIMITS = {"request.timeout.ms": "10000", "default.api.timeout.ms": "15000"}


class KafkaTool:
    """One Kafka tool for one cluster; each call runs the tool once.

    Attributes:
        main: the tool's Java class.
        rights: Kafka rights that the connection's principal needs.
        commands: the tool's command -> the option that names what the command changes; "" if it changes nothing.
    """

    main: str
    rights: str
    commands: Mapping[str, str]

    def __init__(self, jars: str, config: Mapping[str, Any], alias: str, scope: DrillScope | None = None) -> None:
        """Check the configuration; nothing runs yet.

        Args:
            jars: folder of Kafka's jars.
            config: the connection's settings, by librdkafka's keys.
            alias: the cluster's name in the topology, for errors.
            scope: in a drill, what the tool may change.
        """
        self._jars, self._alias, self._scope = jars, alias, scope
        self._servers = str(client_config(config, alias)["bootstrap.servers"])
        self._config = dict(config)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._alias!r})"

    def _run(self, *arguments: str) -> str:
        if self._scope is not None:
            self._refuse_outside(self._scope, *arguments)
        if not any(Path(self._jars).glob("kafka-tools*.jar")):
            raise BadInput(
                "Kafka's own tools are not in the folder that the topology names",
                f"no kafka-tools*.jar in {self._jars}",
                "set `kafka_tools` in the topology to the folder `libs` of a Kafka distribution",
            )
        if mechanism_of(self._config) == TOKEN:
            # Java would only say, much later, that no broker has answered.
            TokenIssuer(self._config, self._alias).token()
        with self._settings_file() as settings:
            settings_path = f"/dev/fd/{settings.fileno()}"
            command = [
                java_program(),
                *_FLAGS,
                *java_options(self._config),
                "-cp",
                f"{self._jars}/*",
                self.main,
                "--bootstrap-server",
                self._servers,
                "--command-config",
                settings_path,
                *arguments,
            ]
            completed = self._run_command(command, arguments[0], settings.fileno())
        if completed.returncode != 0:
            raise self._failed(arguments[0], _last_words(completed.stderr))
        return completed.stdout

    def _refuse_outside(self, scope: DrillScope, command: str, *options: str) -> None:
        """Raise OutsideDrill unless a command changes nothing, or only what is in a drill's scope."""
        call, named = f"the command {command} of {self.main}", dict(option.split("=", 1) for option in options)
        match self.commands.get(command):
            case "":
                return
            case "--topic":
                scope.require_topic(named["--topic"], call)
            case "--transactionalId":
                scope.require_transactional_id(named["--transactionalId"], call)
            case _:
                scope.refuse("what no drill changes", call)

    def _run_command(self, command: list[str], what: str, settings: int) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                command,
                env={key: os.environ[key] for key in _INHERITED if key in os.environ} | {"LC_ALL": "C.UTF-8"},
                pass_fds=(settings,),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise self._failed(what, f"the tool did not end within {_SECONDS:.0f} s") from None
        except OSError as error:
            raise BadInput(
                "Java cannot be started",
                str(error),
                "install Java 17 or newer on the machine where the task ran, or set JAVA_HOME to its folder",
            ) from None

    def _failed(self, what: str, seen: str) -> KafkaUnavailable:
        return KafkaUnavailable(
            f"Kafka's tool failed at `{what}` on {self._alias}",
            seen,
            f"make sure that the brokers of {self._alias} run, that the Kafka version under `kafka_tools` in the"
            f" topology has this command, and that the connection's principal has the rights: {self.rights}",
        )

    @contextmanager
    def _settings_file(self) -> Iterator[IO[str]]:
        """Yield an unlinked temporary file with the connection's settings for Java, which no other user can read."""
        with tempfile.TemporaryFile("w+", encoding="ascii", prefix="switchback-") as file:
            file.write(
                javaproperties.dumps({**for_java(self._with_pem_contents(), self._alias), **_LIMITS}, timestamp=None)
            )
            file.flush()
            file.seek(0)
            yield file

    def _with_pem_contents(self) -> dict[str, Any]:
        inline = {}
        for key in _FILES.keys() & self._config.keys():
            try:
                inline[_FILES[key]] = Path(str(self._config[key])).read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise BadInput(
                    f"the file that {key} names in the connection of {self._alias} cannot be read",
                    type(error).__name__,
                    "copy the PEM file to the machine where the task ran, let the user of Airflow's tasks read it,"
                    f" and name its path under {key} in that connection",
                ) from None
        return self._config | inline


def java_program() -> str:
    """Return the path of `java` below JAVA_HOME; if JAVA_HOME is not set, `java`, which the shell's PATH resolves."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def _last_words(stderr: str) -> str:
    """Return the last three lines of a tool's stderr, at most 400 characters, without secrets."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return without_secrets(" ".join(lines[-3:]))[-400:] or "no text on stderr"
