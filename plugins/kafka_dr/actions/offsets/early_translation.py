"""Early translation: translate positions in the Spark job that assesses loss, to save a second start of Spark.

Invariant: the same input gives the same rows. If the source is not read, only the target's logs can change after the
assessment; if their log starts and log ends are unchanged, translate_offsets uses the rows of the early translation.
Frames of this module: `floors` (log ends of both clusters, one row per sample and partition), `pairs` (content pairs),
`syncs` (offset syncs), `bounds` (log starts and log ends of both clusters, one row per source partition).
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
from kafka_dr.hooks.private_files import private_file, private_folder
from kafka_dr.procedure.entries import DataLossAssessed, EarlyTranslation, MissingRange
from kafka_dr.procedure.run import Run
from kafka_dr.recorder.history import PARTITION
from kafka_dr.vocabulary import Step

#: Limits of an early translation, because the approver of the loss waits for it: number of positions, and seconds of
#: reading (in translate_offsets the job has ten minutes).
MOST_POSITIONS, _MOST_READ_SECONDS = 200_000, 60
_SUMMARY_FIELDS = ("digest", "classes", "records_read", "repeats", "holes", "cut")


def write_ahead(
    procedure: Run,
    assessment: Path,
    positions: pd.DataFrame,
    floors: pd.DataFrame,
    syncs: pd.DataFrame,
    pairs: pd.DataFrame,
    bounds: pd.DataFrame,
    flowed_back: bool,
    samples_missing: bool,
) -> None:
    """Write the early translation's input to a subfolder of `assessment`, the input folder of the assessment job.

    Nothing is written if there is no position, or if there are more than MOST_POSITIONS positions.

    Args:
        flowed_back: whether the reverse flow may have mirrored records from the target to the source.
        samples_missing: whether the flight recorder has stored newer samples than those that could be read.
    """
    if not 0 < len(positions) <= MOST_POSITIONS:
        return
    folder = private_folder(assessment / Step.TRANSLATE_OFFSETS)
    logs, known = bounds_as_assessed(bounds), (flowed_back, samples_missing)
    job = write_translation(procedure, folder, positions, floors, syncs, pairs, logs, *known)
    private_file(folder / "job.json").write_text(
        json.dumps(job | {"deadline_seconds": _MOST_READ_SECONDS}), encoding="utf-8"
    )


def write_translation(
    procedure: Run,
    folder: Path,
    positions: pd.DataFrame,
    floors: pd.DataFrame,
    syncs: pd.DataFrame,
    pairs: pd.DataFrame,
    bounds: pd.DataFrame,
    flowed_back: bool,
    samples_missing: bool,
) -> dict[str, Any]:
    """Write all input files of a translation without the source; return the content of job.json.

    Args:
        flowed_back: whether the reverse flow may have mirrored records from the target to the source.
        samples_missing: whether the flight recorder has stored newer samples than those that could be read.
    """
    write_frame(folder, "positions", positions)
    write_frame(folder, "floors", contract_frame(floors, "source_end", "target_end", "sampled_at"))
    write_frame(folder, "syncs", trusted_pairs(syncs, pairs, floors))
    bounds = with_lost_copies(procedure, folder, bounds, bounds_of_lost_copies(procedure, positions["topic"].unique()))
    write_frame(folder, "bounds", bounds)
    step = Step.ASSESS_DATA_LOSS if procedure.progress.done(DataLossAssessed) is None else Step.TRANSLATE_OFFSETS
    tell_unknown(procedure, step, write_lineage(procedure, folder, bounds, positions))
    return {
        "isolation": procedure.flow.isolation,
        "source_readable": False,
        "only_mirrored": not flowed_back,
        "samples_missing": samples_missing,
    }


def early_result(procedure: Run, assessment: Path) -> EarlyTranslation | None:
    """Save the early translation to a file; return receipt and figures, or None if the job wrote no translation.

    Args:
        assessment: output folder of the assessment job.
    """
    output_folder = assessment / Step.TRANSLATE_OFFSETS
    if not output_folder.exists():
        return None
    summary = json.loads((output_folder / "summary.json").read_text(encoding="utf-8"))
    job_input = assessment.with_name(f"{assessment.name}.input") / Step.TRANSLATE_OFFSETS
    bounds = pd.read_parquet(job_input / "bounds.parquet")
    rows = procedure.artifacts.save("translated_ahead", pd.read_parquet(output_folder / "translation.parquet"))
    summary |= {name: [MissingRange(**missing_range) for missing_range in summary[name]] for name in ("holes", "cut")}
    copies = ends_of_copies(procedure, bounds)
    return EarlyTranslation(
        **vars(rows),
        copies=copies,
        job_input=procedure.artifacts.receipt_of(job_input),
        **{name: summary[name] for name in _SUMMARY_FIELDS},
    )


def reuse_if_target_unchanged(
    procedure: Run, early: EarlyTranslation | None, bounds: pd.DataFrame, positions: pd.DataFrame
) -> tuple[pd.DataFrame, dict[str, Any]] | None:
    """Return rows and summary of the early translation; None without one, or if a log of the target has changed.

    Args:
        early: receipt and figures of the early translation; None without an early translation.
        bounds, positions: the frames of the loss assessment.
    """
    if not early or not bounds_at_boundary(procedure, bounds).equals(bounds_as_assessed(bounds)):
        return None
    copies = bounds_of_lost_copies(procedure, positions["topic"].unique())
    if ends_of_copies(procedure, copies) != early.copies:
        return None
    summary = {name: asdict(early)[name] for name in _SUMMARY_FIELDS}
    made = {"made_by": Step.ASSESS_DATA_LOSS.value, "job_input": early.job_input}
    return procedure.artifacts.load(early), summary | made


def bounds_at_boundary(procedure: Run, bounds: pd.DataFrame) -> pd.DataFrame:
    """Return `bounds` of the loss assessment as input of a translation, with newer offsets of the target.

    These are the boundary and the target's current log starts. The source is not read.
    """
    boundary = boundary_of(procedure)
    # Retention deletes records while people decide. From a position below the log start, consumers would continue at
    # the offset that auto.offset.reset chooses.
    return _with_target_offsets(bounds, boundary, procedure.systems.target.starts(list(boundary)))


def bounds_as_assessed(bounds: pd.DataFrame) -> pd.DataFrame:
    """Return `bounds` of the loss assessment as input of a translation, with the target's offsets unchanged.

    These are the target's log starts and log ends when loss was assessed.
    """
    return _with_target_offsets(bounds, *(_offsets_on_target(bounds, name) for name in ("boundary", "target_start")))


def _offsets_on_target(bounds: pd.DataFrame, name: str) -> dict[TopicPartition, int]:
    rows = bounds[["target_topic", "partition", name]].dropna()
    return {TopicPartition(topic, int(p)): int(value) for topic, p, value in rows.itertuples(index=False)}


def _with_target_offsets(
    bounds: pd.DataFrame, boundary: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]
) -> pd.DataFrame:
    by_remote = bounds.rename(columns={"topic": "source_topic", "target_topic": "topic"}).drop(
        columns=["boundary", "target_start"]
    )
    current = with_partition_column(
        with_partition_column(by_remote, boundary, "boundary"), starts, "target_start"
    ).rename(columns={"topic": "target_topic", "source_topic": "topic"})
    # The cut-off corresponds to the boundary only if the target's log still ends at the boundary that the continued
    # planned run proved; otherwise the cut-off proves nothing about the target's records.
    drained = bounds["drained"] & current["boundary"].eq(bounds["boundary"].astype("Int64")).fillna(False).astype(bool)
    return current[bounds.columns].assign(
        cut_off=bounds["cut_off"].astype("Int64").where(drained), drained=drained, complete=drained
    )


def trusted_pairs(syncs: pd.DataFrame, pairs: pd.DataFrame, floors: pd.DataFrame) -> pd.DataFrame:
    """Return offset syncs about target records older than the flight recorder's first sample, then content pairs.

    From the first sample on offset syncs are left out, because MirrorMaker 2's statements are unchecked and the job
    counts the target's records between content pairs instead.

    Returns:
        One row per offset pair: topic, partition, upstream, downstream, sequence (order of the rows).

    Args:
        pairs: content pairs.
        floors: log ends of both clusters, one row per sample and partition.
    """
    first_samples = floors.groupby(PARTITION)["target_end"].min().rename("recorded_from").reset_index()
    older_syncs = syncs.merge(first_samples, on=PARTITION, how="left")
    older_syncs = older_syncs[
        older_syncs["recorded_from"].isna() | (older_syncs["downstream"] < older_syncs["recorded_from"])
    ]
    names = [*PARTITION, "upstream", "downstream"]
    # Offset syncs stay in the order written, which shows whether records were mirrored a second time; content pairs
    # follow in the order of sampling.
    ordered = pd.concat(
        [older_syncs.sort_values("sequence")[names], pairs.sort_values("sampled_at")[names]], ignore_index=True
    )
    return ordered.assign(sequence=range(len(ordered))).astype(
        {"topic": object, "partition": "int32", "upstream": "int64", "downstream": "int64", "sequence": "int64"}
    )
