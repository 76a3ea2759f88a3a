"""The private file by which a job gets its logins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kafka_dr_spark.contract.logins import take_logins
from kafka_dr_spark.contract.schemas import ContractBroken
from kafka_dr_spark.job import client_access

CLUSTER = {"bootstrap.servers": "x:1", "sasl.password": "hunter2"}


def written(folder: Path, content: Any, mode: int = 0o600) -> Path:
    """A file with this content, as JSON unless it is text."""
    file = folder / "logins.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    file.chmod(mode)
    return file


def test_it_is_deleted_once_it_has_been_read(tmp_path: Path) -> None:
    """Nothing that prints the logins shows them."""
    file = written(tmp_path, {"source": CLUSTER, "target": CLUSTER, "spark": {"spark.authenticate.secret": "hunter2"}})
    logins = take_logins(file)
    assert logins.source == logins.target == CLUSTER and logins.spark == {"spark.authenticate.secret": "hunter2"}
    assert not file.exists() and "hunter2" not in repr(logins)


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        ({"target": CLUSTER}, 0o640, "other users can read the file"),
        ("hunter2", 0o600, "not JSON"),
        ([], 0o600, "must be an object"),
        ({"target": CLUSTER, "other": "hunter2"}, 0o600, "must be an object with no other keys"),
        ({"target": {"sasl.password": "hunter2"}}, 0o600, "target must be an object of client settings"),
        ({"target": CLUSTER, "store": "hunter2"}, 0o600, "store must be an object of fsspec's options"),
    ],
)
def test_what_is_wrong_is_said_without_the_content(content: Any, mode: int, message: str, tmp_path: Path) -> None:
    """The file is named, the logins are not."""
    with pytest.raises(ContractBroken, match=message) as broken:
        take_logins(written(tmp_path, content, mode))
    assert "hunter2" not in str(broken.value)


def test_a_driver_elsewhere_is_told_what_to_do(tmp_path: Path) -> None:
    """It cannot see the file of the Airflow task."""
    with pytest.raises(ContractBroken, match=r"cannot be read .*set deploy mode client in Spark's connection"):
        take_logins(tmp_path / "logins.json")


def test_a_missing_cluster_is_named(tmp_path: Path) -> None:
    """The source's login is needed only if the source is read."""
    logins = take_logins(written(tmp_path, {"target": CLUSTER}))
    client_access(logins, source_readable=False)
    with pytest.raises(ContractBroken, match="source: no client settings"):
        client_access(logins, source_readable=True)
