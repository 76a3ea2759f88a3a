"""Java programs: arguments are passed in a private file, so that no command line is long or shows a secret."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import javaproperties

from lab.environment.state import Lab, write_private
from lab.errors import LabError
from lab.install.jars import LAB, ready_jars
from lab.install.java_flags import FLAGS


def java_program() -> str:
    """Return the Java program: JAVA_HOME's if set, else `java` on the path."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def java_command(lab: Lab, name: str, heap: str, main: str, *arguments: str) -> list[str]:
    """Write the argument file of a program and return the command that starts the program.

    Args:
        name: name of the process, the argument file and the log file.
        heap: value of -Xmx, such as ``512m``.
        main: class with the main method.
    """
    jars = ready_jars()
    if jars is None:
        raise LabError("the Kafka jars are missing; run: make setup")
    options = [
        f"-Xmx{heap}",
        *FLAGS,
        *_logging_options(lab, name),
        f"-Djava.io.tmpdir={temporary_folder(lab)}",
        "-cp",
        f"{jars / 'kafka'}/*",
        main,
        *arguments,
    ]
    file = lab.home / "arguments" / name
    write_private(file, "\n".join(_quoted(option) for option in options))
    return [java_program(), f"@{file}"]


def run_to_end(name: str, command: list[str]) -> None:
    """Run a short program to its end.

    Raises:
        LabError: the program failed; the text has the end of its output.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{name} failed with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")


def temporary_folder(lab: Lab) -> Path:
    """Return the folder of the lab's temporary files, which `down` removes."""
    folder = lab.home / "tmp"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def properties_text(properties: dict[str, object]) -> str:
    """Return the text of a Java properties file, in printable ASCII."""
    return javaproperties.dumps({key: str(value) for key, value in properties.items()}, timestamp=None)


def _logging_options(lab: Lab, name: str) -> list[str]:
    """Return the logging options: a file per process; in containers the standard output."""
    if lab.load().published:
        return [f"-Dlog4j2.configurationFile={LAB / 'containers' / 'log4j2.properties'}"]
    return [
        f"-Dlab.log={lab.logs / name}.log",
        f"-Dlog4j2.configurationFile={LAB / 'environment' / 'log4j2.properties'}",
    ]


def _quoted(argument: str) -> str:
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
