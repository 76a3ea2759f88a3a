"""The independent judge: it knows the ground truth, reads the real clusters, shares nothing with the product."""

from __future__ import annotations

from lab.judge.findings import Finding, Verdict
from lab.judge.ledger import Ledger, Names
from lab.judge.lost_court import LostSourceJudge
from lab.judge.lost_exhibits import LostExhibits
from lab.judge.round_trip_court import TripJudge
from lab.judge.round_trip_exhibits import RoundTripExhibits, Trip

__all__ = [
    "Finding",
    "Ledger",
    "LostExhibits",
    "LostSourceJudge",
    "Names",
    "RoundTripExhibits",
    "Trip",
    "TripJudge",
    "Verdict",
]
