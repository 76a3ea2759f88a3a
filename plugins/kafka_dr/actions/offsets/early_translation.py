"""Translate positions with the loss assessment: clients need not wait for a second start of Spark.

Invariant: the same input gives the same rows. Of what a translation without the source reads only the target's log can
change after the assessment; where it begins and ends as it did then, the rows made then are the rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.actions.history.segment_frames import tell_unknown, write_lineage
from kafka_dr.actions.offsets.prefixed_topics import bounds_of_lost_copies, ends_of_copies, with_lost_copies
from kafka_dr.actions.scope.plan_scope import boundary_of
from kafka_dr.actions.scope.position_frames import with_partition_column
from kafka_dr.actions.spark_jobs import contract_frame, write_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.procedure.entries import DataLossAssessed, EarlyTranslation, MissingRange
from kafka_dr.procedure.run import Run
from kafka_dr.recorder.history import PARTITION
from kafka_dr.vocabulary import Step

#: Whoever decides about the loss would wait for more than these, and for reading that takes longer: ten minutes, as the
#: job's own step may.
MOST_POSITIONS, _MOST_SECONDS = 200_000, 60
_TOLD = ("digest", "classes", "records_read", "repeats", "holes", "cut")


def write_ahead(
    procedure: Run,
    assessment: Path,
    positions: pd.DataFrame,
    floors: pd.DataFrame,
    syncs: pd.DataFrame,
    pairs: pd.DataFrame,
    bounds: pd.DataFrame,
    flowed_back: bool,
) -> None:
    """Write a translation's input beside the assessment's, by the target now; not for none or too many positions."""
    if not 0 < len(positions) <= MOST_POSITIONS:
        return
    folder = assessment / Step.TRANSLATE_OFFSETS
    folder.mkdir()
    told = write_translation(procedure, folder, positions, floors, syncs, pairs, as_assessed(bounds), flowed_back)
    (folder / "job.json").write_text(json.dumps(told | {"deadline_seconds": _MOST_SECONDS}), encoding="utf-8")


def write_translation(
    procedure: Run,
    folder: Path,
    positions: pd.DataFrame,
    floors: pd.DataFrame,
    syncs: pd.DataFrame,
    pairs: pd.DataFrame,
    bounds: pd.DataFrame,
    flowed_back: bool,
) -> dict[str, Any]:
    """Write all files of a translation without the source; answer what its job.json says.

    Args:
        flowed_back: as of `recorder.history.Recorded`.
    """
    write_frame(folder, "positions", positions)
    write_frame(folder, "floors", contract_frame(floors, "source_end", "target_end", "sampled_at"))
    write_frame(folder, "syncs", trusted_pairs(syncs, pairs, floors))
    bounds = with_lost_copies(procedure, folder, bounds, bounds_of_lost_copies(procedure, positions["topic"].unique()))
    write_frame(folder, "bounds", bounds)
    step = Step.ASSESS_DATA_LOSS if procedure.progress.done(DataLossAssessed) is None else Step.TRANSLATE_OFFSETS
    tell_unknown(procedure, step, write_lineage(procedure, folder, bounds, positions))
    return {"isolation": procedure.flow.isolation, "source_readable": False, "only_mirrored": not flowed_back}


def early_result(procedure: Run, assessment: Path) -> EarlyTranslation | None:
    """Keep the translation made with an assessment: its receipt and figures; None where Spark made none."""
    made = assessment / Step.TRANSLATE_OFFSETS
    if not made.exists():
        return None
    summary = json.loads((made / "summary.json").read_text(encoding="utf-8"))
    given = pd.read_parquet(
        assessment.with_name(f"{assessment.name}.input") / Step.TRANSLATE_OFFSETS / "bounds.parquet"
    )
    rows = procedure.artifacts.save("translated_ahead", pd.read_parquet(made / "translation.parquet"))
    summary |= {name: [MissingRange(**one) for one in summary[name]] for name in ("holes", "cut")}
    copies = ends_of_copies(procedure, given)
    return EarlyTranslation(**vars(rows), copies=copies, **{name: summary[name] for name in _TOLD})


def reuse_if_target_unchanged(
    procedure: Run, made: EarlyTranslation | None, bounds: pd.DataFrame, positions: pd.DataFrame
) -> tuple[pd.DataFrame, dict[str, Any]] | None:
    """The rows made ahead, and their summary, if the target is as it was; None where they must be made anew.

    Args:
        made: as of `early_result`.
        bounds, positions: those of the assessment.
    """
    if not made or not bounds_at_boundary(procedure, bounds).equals(as_assessed(bounds)):
        return None
    copies = bounds_of_lost_copies(procedure, positions["topic"].unique())
    if ends_of_copies(procedure, copies) != made.copies:
        return None
    summary = {name: asdict(made)[name] for name in _TOLD}
    return procedure.artifacts.load(made), summary | {"made_by": Step.ASSESS_DATA_LOSS.value}


def bounds_at_boundary(procedure: Run, bounds: pd.DataFrame) -> pd.DataFrame:
    """The inventory's bounds with the target's log as it is now, up to the boundary; does not read the source."""
    boundary = boundary_of(procedure)
    # Retention goes on while people decide: a position below the log's beginning would send its group to wherever its
    # settings say.
    return _bounds_with(bounds, boundary, procedure.systems.target.starts(list(boundary)))


def as_assessed(bounds: pd.DataFrame) -> pd.DataFrame:
    """The same with the target's log as it was when the loss was assessed."""
    return _bounds_with(bounds, *(_of_target(bounds, name) for name in ("boundary", "target_start")))


def _of_target(bounds: pd.DataFrame, name: str) -> dict[TopicPartition, int]:
    rows = bounds[["target_topic", "partition", name]].dropna()
    return {TopicPartition(topic, int(p)): int(value) for topic, p, value in rows.itertuples(index=False)}


def _bounds_with(
    bounds: pd.DataFrame, boundary: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]
) -> pd.DataFrame:
    by_remote = bounds.rename(columns={"topic": "source_topic", "target_topic": "topic"}).drop(
        columns=["boundary", "target_start"]
    )
    placed_now = with_partition_column(
        with_partition_column(by_remote, boundary, "boundary"), starts, "target_start"
    ).rename(columns={"topic": "target_topic", "source_topic": "topic"})
    # Only where the target ends as a continued run had left it is the cut-off a pair with the boundary: else it says
    # nothing of what is there.
    drained = bounds["drained"] & placed_now["boundary"].eq(bounds["boundary"].astype("Int64")).fillna(False).astype(
        bool
    )
    return placed_now[bounds.columns].assign(
        cut_off=bounds["cut_off"].astype("Int64").where(drained), drained=drained, complete=drained
    )


def trusted_pairs(syncs: pd.DataFrame, pairs: pd.DataFrame, floors: pd.DataFrame) -> pd.DataFrame:
    """Pairs found by content, and offset syncs older than the first sample, in order of the target's log.

    A sync is a statement that nobody checked; where samples tell as much, it is not needed: between pairs the target's
    records are counted.
    """
    first = floors.groupby(PARTITION)["target_end"].min().rename("recorded_from").reset_index()
    older = syncs.merge(first, on=PARTITION, how="left")
    older = older[older["recorded_from"].isna() | (older["downstream"] < older["recorded_from"])]
    names = [*PARTITION, "upstream", "downstream"]
    # Syncs keep their own order, in which a rewound target shows; pairs come after them, in that of the log.
    ordered = pd.concat(
        [older.sort_values("sequence")[names], pairs.sort_values("sampled_at")[names]], ignore_index=True
    )
    return ordered.assign(sequence=range(len(ordered))).astype(
        {"topic": object, "partition": "int32", "upstream": "int64", "downstream": "int64", "sequence": "int64"}
    )
