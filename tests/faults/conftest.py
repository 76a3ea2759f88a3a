"""What several files of faults begin with: a lab a file, clients at work for each case."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.support.scene import Scene, Stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The lab of this file."""
    made = Stage(tmp_path_factory.mktemp)
    yield made
    made.close()


@pytest.fixture
def scene(stage: Stage) -> Iterator[Scene]:
    """Clients at work on the source, and nothing left of the case before."""
    made = stage.scene()
    yield made
    made.tidy()
