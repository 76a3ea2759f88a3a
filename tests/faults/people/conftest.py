"""The lab on which people attack approvals."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.environment.bring_up import up
from lab.environment.take_down import down
from tests.faults.support.attacked_run import AttackedLab, free, seed


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedLab]:
    """A lab with one topic of a hundred records and one group half-way through it."""
    lab = AttackedLab(tmp_path_factory.mktemp("lab"))
    try:
        up(lab.root)
        seed(lab)
        yield lab
    finally:
        down(lab.root)


@pytest.fixture
def nothing_left(lab: AttackedLab) -> Iterator[None]:
    """A test that failed half-way leaves the pair of clusters to the next one."""
    yield
    free(lab)
