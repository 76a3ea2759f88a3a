"""A real planned failover whose offsets are translated on a Spark cluster: only the Spark connection differs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lab.state import Lab
from tests.rehearsed import rehearsed_without_findings


def test_translated_on_a_master_with_two_workers(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Executors of both workers registered, the tasks ran there, no secret stands in their output, and the judge finds nothing."""
    state = fresh_lab("identity", spark_workers=2)
    rehearsed_without_findings(state, tmp_path, rate=2_000)
    lab = Lab(state)
    outputs = {path: path.read_text() for path in (lab.home / "spark").glob("*/app-*/*/std*")}
    assert {path.relative_to(lab.home / "spark").parts[0] for path in outputs} == {"spark-worker-0", "spark-worker-1"}
    assert any("Finished task" in text for text in outputs.values())
    assert not any(password in text for text in outputs.values() for password in lab.load().passwords.values())
