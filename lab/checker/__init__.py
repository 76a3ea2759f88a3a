"""Checker of client moves: compares both clusters with what clients wrote; imports no code of the product.

A client move is one failover or failback that moved clients from one cluster to the other.
"""

from __future__ import annotations

from lab.checker.findings import CheckResult, Finding
from lab.checker.ledger import Ledger, Names
from lab.checker.round_trip.check import RoundTripCheck
from lab.checker.round_trip.observed import RoundTripObserved, Trip
from lab.checker.unplanned_check import UnplannedCheck
from lab.checker.unplanned_observed import UnplannedObserved

__all__ = [
    "CheckResult",
    "Finding",
    "Ledger",
    "Names",
    "RoundTripCheck",
    "RoundTripObserved",
    "Trip",
    "UnplannedCheck",
    "UnplannedObserved",
]
