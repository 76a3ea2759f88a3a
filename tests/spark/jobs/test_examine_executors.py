"""The job by which doctor looks at Spark's executors, through a real spark-submit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.spark_jobs import submit


@pytest.mark.spark
def test_executors_are_looked_at(tmp_path: Path) -> None:
    """A package that the input names and an executor lacks is named; a package that it has is not."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "packages.json").write_text('["fsspec", "no_such_package"]')
    done = submit("examine_executors", tmp_path / "in", tmp_path / "out")
    assert done.returncode == 0, done.stdout[-2000:]
    document = json.loads((tmp_path / "out" / "executors.json").read_text())
    (executor,) = document["executors"]
    assert executor["missing"] == {"no_such_package": "ModuleNotFoundError: No module named 'no_such_package'"}
    assert document["python"] == executor["python"] and abs(executor["ahead"]) <= executor["doubt"] + 1.0
