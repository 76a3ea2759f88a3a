"""Where DAG files and Spark jobs lie: beside `plugins/` in a checkout, inside this package in a wheel."""

from __future__ import annotations

import os
from pathlib import Path

#: The folder that holds this package: `plugins/` of a checkout, else `site-packages`.
PACKAGES = Path(__file__).parents[1]
_PACKAGED = Path(__file__).parent / "packaged"


def is_wheel() -> bool:
    """Whether the package was installed from a wheel, so that Airflow finds the plugin by its entry point."""
    return _PACKAGED.is_dir()


def dags_folder() -> Path:
    """Return the folder of the DAG files."""
    return _parts() / "dags"


def spark_folder() -> Path:
    """Return the folder that holds `jobs`, and the package that the jobs import."""
    return _parts() / "spark"


def _parts() -> Path:
    return _PACKAGED if is_wheel() else PACKAGES.parent


def python_path() -> str:
    """Return PYTHONPATH for child processes: what this process has, and in a checkout the folder of this package."""
    inherited = os.environ.get("PYTHONPATH", "")
    return inherited if is_wheel() else f"{PACKAGES}{os.pathsep}{inherited}".rstrip(os.pathsep)
