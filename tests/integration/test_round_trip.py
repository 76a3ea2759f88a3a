"""A real unplanned failover and a real failback, checked by code that shares nothing with the product."""

from __future__ import annotations

import json
from pathlib import Path

from lab.environment.state import Lab
from lab.rehearsal.round_trip import Leaving, Returning
from lab.rehearsal.unplanned import Accident
from tests.support.rehearsals import trips_without_findings

RATE = 500


def test_clients_leave_a_killed_source_and_return(lost_lab: Lab, tmp_path: Path) -> None:
    """A killed source comes back: nobody skips, stranded records are exported exactly, and clients return."""
    leaving = Leaving(Accident(after=1.0), more=10, stranded=20, params={"confirm_seconds": 6})
    figures = trips_without_findings(
        lost_lab.root, tmp_path, [(leaving, Returning(more=10, born=True))], RATE, scale=0.02, groups=8
    )
    assert figures["stranded_listed"] > 20 and figures["stranded_apart"] > 0 and figures["missing"] == 0
    (unplanned,) = lost_lab.evidence.glob("unplanned_failover-*/evidence.json")
    approvals = json.loads(unplanned.read_text(encoding="utf-8"))["approvals"]
    assert [approval["by"] for approval in approvals if approval["step"] == "approve_data_loss"] == ["approver"]
