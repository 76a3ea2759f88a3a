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
from xdist.scheduler import LoadFileScheduling

from lab.environment.bring_up import up
from lab.environment.take_down import down
from lab.install.setup import NO_POSTGRESQL, postgresql_programs

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

# A time limit for each example fails on a busy machine without anything being wrong. `make faults` chooses `full`.
settings.register_profile("ci", deadline=None, max_examples=10)
settings.register_profile("full", deadline=None, max_examples=100)
settings.load_profile("ci")

#: The tests of each lab, in their order: the last ones of the first lab stop and break it.
LABS = {
    "planned_lab": (
        "test_lab",
        "test_bad_input",
        "test_changed_replication",
        "test_failover_drill",
        "test_planned_failover",
        "test_take_down",
    ),
    "lost_lab": ("test_round_trip",),
    "bare_lab": ("test_lab", "test_kafka_hooks", "test_record_replay", "test_kill_points_sample"),
}
INTEGRATION = "tests/integration/"


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def dag_bag(root: Path) -> object:
    """All DAG files, parsed as Airflow parses them."""
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(str(root / "dags"))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Any]:
    """A PostgreSQL server of this session's (with xdist, this worker's) own."""
    if postgresql_programs() is None:
        pytest.skip(NO_POSTGRESQL)
    from tests.support.postgresql import running_server

    with running_server() as server:
        yield server


Maker = Callable[..., Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Labs first, one after the other, then Spark, then all that is quick."""
    for item in items:
        if item.nodeid.startswith((INTEGRATION, "tests/faults/")):
            item.add_marker(pytest.mark.lab)
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> tuple[int, int]:
    if not item.nodeid.startswith(INTEGRATION):
        return (len(LABS) + (not item.nodeid.startswith("tests/spark/")), 0)
    parameters = getattr(item, "callspec", None)
    names = [*item.fixturenames, *(parameters.params.values() if parameters else ())]
    number, files = next((number, files) for number, (lab, files) in enumerate(LABS.items()) if lab in names)
    return number, files.index(item.path.stem)


class LabsOnOneWorker(LoadFileScheduling):
    """A worker takes a whole file; one worker takes all labs, and the others run what needs none meanwhile."""

    def _split_scope(self, nodeid: str) -> str:
        return INTEGRATION if nodeid.startswith(INTEGRATION) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LabsOnOneWorker:
    """Return how files go to workers."""
    return LabsOnOneWorker(config, log)


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
