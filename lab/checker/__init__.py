"""Independent checker: compare the clusters with the records that clients wrote; imports none of the product."""

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
