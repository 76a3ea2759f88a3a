"""Run Java programs with their arguments in a private file, so that command lines are short and show no secret."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import javaproperties

from lab.environment.logins.clients import java_options
from lab.environment.state import Lab, write_private
from lab.environment.versions.releases import NEWEST, RELEASES
from lab.environment.versions.version_jars import version_folder
from lab.errors import LabError
from lab.install.jars import LAB
from lab.install.java_flags import FLAGS


def java_program() -> str:
    """Return the path of the Java program: under JAVA_HOME if this is set, else `java` on PATH."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def java_command(lab: Lab, name: str, heap: str, main: str, *arguments: str, version: str = NEWEST) -> list[str]:
    """Write a Java program's argument file; return the command that starts the program with this file.

    Args:
        name: name of the process, also of its argument file and its log file.
        heap: value of Java's option -Xmx, such as ``512m``.
        main: name of the class with the main method.
        version: version of Kafka whose jars are on the class path.

    Raises:
        LabError: the jars are not installed.
    """
    options = [
        f"-Xmx{heap}",
        *FLAGS,
        *_logging_options(lab, name, version),
        *java_options(lab.load()),
        f"-Djava.io.tmpdir={temporary_folder(lab)}",
        "-cp",
        f"{version_folder(version)}/*",
        main,
        *arguments,
    ]
    file = lab.home / "arguments" / name
    write_private(file, "\n".join(_quoted(option) for option in options))
    return [java_program(), f"@{file}"]


def run_to_end(name: str, command: list[str]) -> str:
    """Run a command, wait for its end, and return its output.

    Raises:
        LabError: the command's exit code is not 0; the text has the end of the command's output.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(
            f"{name} failed with exit code {done.returncode}; remove the cause, then start the lab again:"
            f" {(done.stdout + done.stderr)[-2000:]}"
        )
    return done.stdout


def temporary_folder(lab: Lab) -> Path:
    """Return the folder for the lab's temporary files, and create it if absent; `down` removes the folder."""
    folder = lab.home / "tmp"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def properties_text(properties: dict[str, object]) -> str:
    """Return properties as the text of a Java properties file, in printable ASCII."""
    return javaproperties.dumps({key: str(value) for key, value in properties.items()}, timestamp=None)


def _logging_options(lab: Lab, name: str, version: str) -> list[str]:
    """Return Java's options for logging: to one file per process; in containers to the standard output."""
    if lab.load().published:
        return [f"-Dlog4j2.configurationFile={LAB / 'containers' / 'log4j2.properties'}"]
    environment = LAB / "environment"
    if RELEASES[version].log4j2:
        chosen = f"-Dlog4j2.configurationFile={environment / 'log4j2.properties'}"
    else:
        chosen = f"-Dlog4j.configuration={(environment / 'log4j.properties').as_uri()}"
    return [f"-Dlab.log={lab.logs / name}.log", chosen]


def _quoted(argument: str) -> str:
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
