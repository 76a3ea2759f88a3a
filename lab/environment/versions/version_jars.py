"""Fetch and find the jars of the Kafka versions that a lab runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lab.environment.locks import exclusive_lock
from lab.environment.progress import ProgressLines
from lab.environment.versions.releases import NEWEST
from lab.errors import LabError
from lab.install.jars import ensure_jars, jars_folder, list_of_version, ready_jars
from lab.install.setup import VENV, find_java


def version_folder(version: str) -> Path:
    """Return the folder with the jars of a Kafka version.

    Raises:
        LabError: the jars are not installed.
    """
    jars = ready_jars(None if version == NEWEST else list_of_version(version))
    if jars is None:
        raise LabError(
            "the Kafka jars are missing; run: make setup"
            if version == NEWEST
            else f"the jars of Kafka {version} are missing; start the lab again with: python -m lab up"
        )
    return jars / "kafka"


def fetch_versions(versions: Mapping[str, Mapping[str, str]], progress: ProgressLines) -> None:
    """Fetch the jars of Kafka versions other than the newest, unless they are in the user's cache.

    Args:
        versions: by option, alias -> version.
        progress: prints progress lines.

    Raises:
        LabError: the jars cannot be fetched, or differ from the manifest.
    """
    for version in sorted({version for choices in versions.values() for version in choices.values()} - {NEWEST}):
        jars = list_of_version(version)
        with exclusive_lock(jars_folder(jars)):
            if ready_jars(jars) is None:
                progress.say(f"fetching Kafka {version} from Maven Central into {jars_folder(jars)}, a minute")
            (ivy,) = VENV.glob("lib/python3*/site-packages/pyspark/jars/ivy-*.jar")
            try:
                ensure_jars(ivy, find_java(), jars)
            except SystemExit as error:
                raise LabError(str(error)) from None
