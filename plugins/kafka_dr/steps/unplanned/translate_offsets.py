"""Translate positions without the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.actions.offsets.early_translation import bounds_at_boundary, reuse_if_target_unchanged, write_translation
from kafka_dr.procedure.entries import DataLossAssessed
from kafka_dr.procedure.run import Run
from kafka_dr.steps.planned.translate_offsets import TranslateOffsets


class TranslateWithoutSource(TranslateOffsets):
    """Translate the positions seen last, from the recorder's samples and the target's logs alone."""

    def positions(self, procedure: Run) -> pd.DataFrame:
        """The positions to translate: those of the inventory."""
        return procedure.artifacts.load(procedure.progress.require(DataLossAssessed).positions)

    def translated(self, procedure: Run, context: Any, positions: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Reuse the assessment's translation if the target is unchanged, else run Spark; add earlier missing ranges."""
        assessed = procedure.progress.require(DataLossAssessed)
        bounds, earlier = procedure.artifacts.load(assessed.bounds), assessed.earlier_translation
        reused = reuse_if_target_unchanged(procedure, assessed.translated_ahead, bounds, positions)
        rows, summary = reused or super().translated(procedure, context, positions)
        return rows, summary | {name: [*earlier.get(name, ()), *summary[name]] for name in ("holes", "cut")}

    def write_inputs(self, procedure: Run, folder: Path, positions: pd.DataFrame) -> dict[str, Any]:
        """Write the inventory's positions, floors and pairs, and the target's log bounds after the stop."""
        assessed = procedure.progress.require(DataLossAssessed)
        floors, syncs, pairs = map(procedure.artifacts.load, (assessed.floors, assessed.syncs, assessed.pairs))
        bounds = bounds_at_boundary(procedure, procedure.artifacts.load(assessed.bounds))
        return write_translation(procedure, folder, positions, floors, syncs, pairs, bounds, assessed.flowed_back)
