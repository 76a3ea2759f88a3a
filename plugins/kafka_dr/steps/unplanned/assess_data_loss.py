"""Assess what is lost with the source, and write the plan."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pandas as pd

from kafka_dr.actions.loss.assessment import last_ends, last_seen, read_present_facts, write_inputs
from kafka_dr.actions.loss.failover_plan import not_exported, plan_of, with_rereads
from kafka_dr.actions.loss.last_known_state import with_movement
from kafka_dr.actions.loss.recreated_topics import copied_anew
from kafka_dr.actions.loss.takeover import plan_section
from kafka_dr.actions.offsets.early_translation import early_result
from kafka_dr.actions.readiness.dns import notes_after_loss
from kafka_dr.actions.readiness.owners import refuse_owned_target
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.actions.spark_jobs import run_spark_job
from kafka_dr.concurrently import run_concurrently
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.procedure.entries import DataLossAssessed
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep


class AssessDataLoss(ProcedureStep):
    """Assess the loss from the recorder's samples and the target's logs; compare records if the source can be read."""

    expires = True

    def act(self, procedure: Run, context: Any) -> DataLossAssessed:
        """Read both clusters and the archive, let Spark assess; return the plan. Nothing is changed on a cluster."""
        notes = refuse_owned_target(procedure) + notes_after_loss(procedure)
        with run_concurrently() as start:
            gathered = start(read_present_facts, procedure)
            result = run_spark_job(
                procedure,
                context,
                "assess_data_loss",
                lambda folder: write_inputs(procedure, folder, *gathered.result()),
                "Spark did not assess the loss",
            )
        last_known, source, proven = gathered.result()
        source_seen = last_seen(procedure, last_known, source)
        summary = json.loads((result / "summary.json").read_text(encoding="utf-8"))
        # Nullable integers, not floats: the plan contains these offsets, and the plan's digest covers them.
        loss, ahead, rereads = (
            pd.read_parquet(result / f"{name}.parquet", dtype_backend="numpy_nullable")
            for name in ("loss", "ahead", "rereads")
        )
        bounds = pd.read_parquet(result.with_name(f"{result.name}.input") / "bounds.parquet")
        assessed = plan_of(
            procedure, last_known, summary, loss, ahead, source_seen, plan_section(proven, int(bounds["drained"].sum()))
        )
        translated = early_result(procedure, result)
        rows = procedure.artifacts.load(translated) if translated else None
        assessed = replace(assessed, unproven=(*assessed.unproven, *notes, *not_exported(procedure, summary)))
        plan = with_rereads(assessed, summary["rereads"], rereads, rows).as_dict()
        cut_off, ends = proven.cut_off, source.ends_or(last_ends(last_known) | proven.cut_off)
        save = procedure.artifacts.save
        return DataLossAssessed(
            plan_file=procedure.artifacts.save_json("plan", plan),
            plan_digest=digest_of(plan),
            inventory_digest=summary["digest"],
            loss=save("loss", loss),
            positions=save("source_positions", with_movement(last_known)),
            floors=save("floors", last_known.recorded.floors),
            syncs=save("offset_syncs", last_known.syncs),
            pairs=save("pairs", last_known.recorded.pairs),
            bounds=save("bounds", bounds),
            active_groups=sorted(last_known.active),
            source_ends=save("source_ends", partitions_frame(ends, "offset")),
            cut_off=save("cut_off", partitions_frame(cut_off, "offset")) if cut_off else None,
            earlier_translation=proven.missing,
            translated_ahead=translated,
            source_readable=source.readable,
            stranded=result.name if source.readable else None,
            exports=procedure.topology.exports.form if source.readable else None,
            last_sample_at=last_known.recorded.last_at,
            source_last_seen_at=last_known.recorded.source_at,
            missing=last_known.missing,
            copied_anew=sorted(copied_anew(last_known)),
            flowed_back=last_known.recorded.flowed_back,
            samples_signed=last_known.recorded.signed,
            samples_missing=last_known.recorded.newest_missing,
            records_read=summary["records_read"],
        )
