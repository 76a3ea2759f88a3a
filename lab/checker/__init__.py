"""The independent judge: it knows the ground truth, reads the real clusters, shares nothing with the product."""

from __future__ import annotations

from lab.checker.findings import Finding, Verdict
from lab.checker.ledger import Ledger, Names
from lab.checker.round_trip.check import TripJudge
from lab.checker.round_trip.observed import RoundTripExhibits, Trip
from lab.checker.unplanned_check import LostSourceJudge
from lab.checker.unplanned_observed import LostExhibits

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
