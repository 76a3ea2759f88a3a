"""One Airflow home for all tests, thrown away afterwards. Airflow reads its environment when it is first
imported.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from lab.bring_up import up
from lab.state import Lab
from lab.take_down import down

ROOT = Path(__file__).parents[1]
HOME = tempfile.mkdtemp(prefix="switchback-airflow-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

os.environ.update(
    AIRFLOW_HOME=HOME,
    AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
    AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{HOME}/airflow.db",
)

# A time limit for each example fails on a busy machine without anything being wrong.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def dag_bag(root: Path) -> object:
    """All DAG files, parsed as Airflow parses them."""
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(str(root / "dags"))


Maker = Callable[..., Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a lab."""
    for item in items:
        if any(Path(__file__).parent / folder in item.path.parents for folder in ("integration", "faults")):
            item.add_marker(pytest.mark.lab)


@pytest.fixture
def fresh_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Maker]:
    """Return a function that brings up a lab of its own and returns its folder; all are taken down at the end."""
    states: list[Path] = []

    def bring_up(policy: str, airflow: bool = True, **choices: Any) -> Path:
        states.append(tmp_path_factory.mktemp("lab"))
        up(states[-1], airflow=airflow, policy=policy, **choices)
        return states[-1]

    yield bring_up
    for state in states:
        down(state)
        shutil.rmtree(state, ignore_errors=True)


@pytest.fixture(scope="session")
def lab_status(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return the status of the lab that SWITCHBACK_LAB_STATE names, or of one without Airflow started for this
    session.
    """
    existing = os.environ.get("SWITCHBACK_LAB_STATE")
    if existing:
        yield Lab(existing).status()
        return
    state = tmp_path_factory.mktemp("lab")
    yield up(state, airflow=False)
    down(state)
