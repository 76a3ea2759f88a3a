"""Facts of reconcile_clusters: the bounds of a comparison, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_dr.procedure.entries.fact import OrAbsent, StepOutcome
from kafka_dr.procedure.entries.records import FolderReceipt, Receipt
from kafka_dr.vocabulary import Step


class BoundsSet(StepOutcome, steps=(Step.SET_BOUNDS,)):
    """What is compared: ranges of both logs, per partition.

    Attributes:
        topics, partitions: how many of the source.
        isolation: isolation level at which MirrorMaker 2 reads the source.
        offsets: number of offsets in the ranges of both logs together.
        absent: source topics that the target lacks.
        only_on_target: topics of the target that are copies by their names, and whose originals the source lacks.
        compacted: compacted source topics, which are compared by the latest value of each key.
        limited_by: id of the last move of clients, at whose cut-off and boundary the logs are compared; None: up to
            their present ends.
        notes: what cannot be judged, and why.
        bounds, judged: receipts of the files with a row per partition, in the columns of the job's inputs.
    """

    topics: int
    partitions: int
    isolation: str
    offsets: int
    absent: Sequence[str]
    only_on_target: Sequence[str]
    compacted: Sequence[str]
    limited_by: OrAbsent[str] = None
    notes: Sequence[str]
    bounds: Receipt
    judged: Receipt


class RecordsCompared(StepOutcome, steps=(Step.COMPARE_RECORDS,)):
    """How both clusters differ between the bounds, as counts over all partitions.

    Attributes:
        differing: number of partitions with differences.
        partitions_that_differ: of these, the first, each with its counts and samples of its list.
        folder: the job's output beside the evidence: reconciled.parquet, and the lists in its folder differences.
        digest: of the rows of reconciled.parquet.
    """

    partitions: int
    differing: int
    source_records: int
    target_records: int
    equal: int
    missing: int
    extra: int
    altered: int
    repeated: int
    moved: int
    behind: int
    older: int
    cut: int
    superseded: int
    listed: int
    partitions_that_differ: Sequence[Mapping[str, Any]]
    folder: FolderReceipt
    digest: str
