"""Create a workload from a seed: topics, records, groups and load; the ground truth says what was written."""

from __future__ import annotations

from lab.workload.ground_truth import GroundTruth
from lab.workload.load import Load
from lab.workload.more_records import leave_transactions_open, write_more
from lab.workload.seeding import Workload

__all__ = ["GroundTruth", "Load", "Workload", "leave_transactions_open", "write_more"]
