"""Three labs, one after the other; naming policies take turns, day by day."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.environment.bring_up import up
from lab.environment.state import Lab
from lab.environment.take_down import down
from tests.support.rehearsals import keep_files

TURN = int(os.environ.get("SWITCHBACK_SEED") or datetime.now(UTC).date().toordinal())
POLICIES = ("identity", "default") if TURN % 2 else ("default", "identity")


class LabInUse:
    """The one lab that is up: two labs at once slow each other down."""

    def __init__(self) -> None:
        self._state: Path | None = None

    def bring_up(self, state: Path, **choices: Any) -> Lab:
        """Take the lab before down and bring up this one."""
        self.take_down()
        self._state = state
        up(state, **choices)
        return Lab(state)

    def take_down(self, keep: bool = False) -> None:
        """Take the lab down, if one is up, and remove its folder; `keep` copies evidence, archive and logs."""
        if self._state is not None:
            if keep:
                keep_files(self._state, self._state.with_name(f"{self._state.name} kept"))
            down(self._state)
            shutil.rmtree(self._state, ignore_errors=True)
            self._state = None


LAB_IN_USE = LabInUse()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """No lab runs beside the tests that need none."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        LAB_IN_USE.take_down(keep=item.session.testsfailed > 0)


@pytest.fixture(scope="session")
def planned_lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A lab with Airflow in a folder that holds a file of somebody else: for bad input and a planned failover."""
    state = tmp_path_factory.mktemp("planned_lab")
    (state / "mine.txt").write_text("mine")
    return LAB_IN_USE.bring_up(state, airflow=True, policy=POLICIES[0])


@pytest.fixture(scope="session")
def lost_lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A lab with Airflow whose source is killed, and to which clients return."""
    return LAB_IN_USE.bring_up(tmp_path_factory.mktemp("lost_lab"), airflow=True, policy=POLICIES[1])


@pytest.fixture(scope="session")
def bare_lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A lab without Airflow."""
    return LAB_IN_USE.bring_up(tmp_path_factory.mktemp("bare_lab"), airflow=False, policy=POLICIES[1])


@pytest.fixture(scope="session")
def lab_status(bare_lab: Lab) -> dict[str, Any]:
    """The status of the lab without Airflow."""
    return bare_lab.status()
