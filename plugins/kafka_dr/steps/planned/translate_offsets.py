"""Translate the groups' positions on the source to positions on the target, with Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.actions.history.segment_frames import tell_unknown, write_lineage
from kafka_dr.actions.offsets.answers import check_complete, rereads_by_group
from kafka_dr.actions.offsets.prefixed_topics import write_prefixed_copies
from kafka_dr.actions.offsets.translation_input import bounds_frame, save_target_topics
from kafka_dr.actions.scope.internal_topics import checkpoints_of, offset_syncs_of
from kafka_dr.actions.spark_jobs import run_spark_job, write_frame, write_portions
from kafka_dr.concurrently import run_concurrently
from kafka_dr.domain.offsets.rereads import compare_with_mirror_maker
from kafka_dr.procedure.entries import ConsumersDrained, MissingRange, OffsetsTranslated, ReadinessChecked
from kafka_dr.procedure.run import Run
from kafka_dr.steps.rechecked import RecheckedStep

_EXACT = "exact"


class TranslateOffsets(RecheckedStep):
    """Write the input, let Spark translate, check the result, and compare it with MirrorMaker 2's checkpoints."""

    def act(self, procedure: Run, context: Any) -> OffsetsTranslated:
        """Translate the positions that `positions` returns; the step fails if a position has no row in the result."""
        positions = self.positions(procedure)
        with run_concurrently() as start:
            checkpoints = start(checkpoints_of, procedure)
            topics = start(save_target_topics, procedure)
            rows, summary = self.translated(procedure, context, positions)
        check_complete(positions, rows)
        rows = compare_with_mirror_maker(rows, checkpoints.result())
        return OffsetsTranslated(
            digest=summary["digest"],
            made_by=summary.get("made_by", self.task_id),
            classes=summary["classes"],
            exact=int(rows[_EXACT].sum()),
            positions=len(rows),
            may_have_moved=int(positions["may_have_moved"].sum()) if "may_have_moved" in positions else 0,
            bound=_largest(rows.loc[rows["target_position"].notna(), "bound"]),
            mirror_maker_bound=_largest(rows["mirror_maker_rereads"].dropna()),
            mirror_maker_missing=int(rows["mirror_maker_position"].isna().sum()),
            rereads_by_group=rereads_by_group(rows),
            records_read=summary["records_read"],
            repeats=summary["repeats"],
            holes=[MissingRange(**gap) for gap in summary["holes"]],
            cut=[MissingRange(**gap) for gap in summary["cut"]],
            translation=procedure.artifacts.save("positions", rows),
            job_input=summary.get("job_input"),
            target_topics=topics.result(),
        )

    def positions(self, procedure: Run) -> pd.DataFrame:
        """Return the positions to translate, one row per group and partition, as drain_consumers saved them."""
        return procedure.artifacts.load(procedure.progress.require(ConsumersDrained).positions)

    def translated(self, procedure: Run, context: Any, positions: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Run the Spark job; return one row per translated position, and the job's summary.

        The summary also has `job_input`, the receipt of the job's input folder.
        """
        result = run_spark_job(
            procedure,
            context,
            "translate_offsets",
            lambda folder: self.write_inputs(procedure, folder, positions),
            "Spark did not translate the positions",
        )
        summary = json.loads((result / "summary.json").read_text(encoding="utf-8"))
        job_input = procedure.artifacts.receipt_of(result.with_name(f"{result.name}.input"))
        return pd.read_parquet(result / "translation.parquet"), summary | {"job_input": job_input}

    def write_inputs(self, procedure: Run, folder: Path, positions: pd.DataFrame) -> dict[str, Any]:
        """Write positions, offset syncs and log bounds as files for the Spark job; return the job's other settings."""
        write_frame(folder, "positions", positions.assign(may_have_moved=False))
        write_portions(folder, "syncs", offset_syncs_of(procedure))
        bounds = write_prefixed_copies(procedure, folder, bounds_frame(procedure))
        write_frame(folder, "bounds", bounds)
        tell_unknown(procedure, self.task_id, write_lineage(procedure, folder, bounds, positions))
        return {"isolation": procedure.progress.require(ReadinessChecked).isolation, "source_readable": True}


def _largest(values: pd.Series) -> int | None:
    """Return the largest value; None if any value is unknown, or if there are no values."""
    return None if values.isna().any() or not len(values) else int(values.max())
