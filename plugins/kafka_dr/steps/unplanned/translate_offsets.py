"""Translate the groups' positions on the source to positions on the target, without reading the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.actions.offsets.early_translation import bounds_at_boundary, reuse_if_target_unchanged, write_translation
from kafka_dr.procedure.entries import DataLossAssessed
from kafka_dr.procedure.run import Run
from kafka_dr.steps.planned.translate_offsets import TranslateOffsets


class TranslateWithoutSource(TranslateOffsets):
    """Translate the last sampled positions, from the flight recorder's samples and the target's logs alone."""

    def positions(self, procedure: Run) -> pd.DataFrame:
        """Return the positions to translate, one row per group and partition, as assess_data_loss saved them."""
        return procedure.artifacts.load(procedure.progress.require(DataLossAssessed).positions)

    def translated(self, procedure: Run, context: Any, positions: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Return one row per translated position, and the summary of the Spark job that made the rows.

        The rows are those of assess_data_loss if the target is unchanged, else of a new job. If this run continues a
        planned run, the summary also lists the records that the planned run's translation did not find on the target.
        """
        assessed = procedure.progress.require(DataLossAssessed)
        bounds, earlier = procedure.artifacts.load(assessed.bounds), assessed.earlier_translation
        reused = reuse_if_target_unchanged(procedure, assessed.translated_ahead, bounds, positions)
        rows, summary = reused or super().translated(procedure, context, positions)
        return rows, summary | {name: [*earlier.get(name, ()), *summary[name]] for name in ("holes", "cut")}

    def write_inputs(self, procedure: Run, folder: Path, positions: pd.DataFrame) -> dict[str, Any]:
        """Write what assess_data_loss saved, and the target's log bounds, as files; return the job's other settings."""
        assessed = procedure.progress.require(DataLossAssessed)
        floors, syncs, pairs = map(procedure.artifacts.load, (assessed.floors, assessed.syncs, assessed.pairs))
        bounds = bounds_at_boundary(procedure, procedure.artifacts.load(assessed.bounds))
        known = assessed.flowed_back, bool(assessed.samples_missing)
        return write_translation(procedure, folder, positions, floors, syncs, pairs, bounds, *known)
