"""Confirm that the source is lost; if it is not, an unplanned failover continues only with an override."""

from __future__ import annotations

import time
from typing import Any

from kafka_dr.actions.old_source.armed_fence import watcher_seen
from kafka_dr.actions.old_source.source_views import confirm_source_state, pace_of
from kafka_dr.domain.loss.source_lost import LossVerdict, SourceState
from kafka_dr.errors import SourceNotLost
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import SourceConfirmedLost, SourceVerdict
from kafka_dr.procedure.entries import SourceStillAnswers as SourceNotLostNoted
from kafka_dr.procedure.run import Run
from kafka_dr.steps.base import ProcedureStep

_OVERRIDE = (
    "To leave the source all the same, start a new run with the reason in override_source_lost, which the second person"
    " who approves the loss sees."
)


class ConfirmSourceLost(ProcedureStep):
    """Send requests to the source, in several rounds and from several places; refuse if the source is not lost.

    The param `override_source_lost`, with a reason, lets the run continue all the same; the approver of the loss reads
    this reason before any client is moved.
    """

    expires = True

    def act(self, procedure: Run, context: Any) -> SourceConfirmedLost:
        """Send the requests and record the answers; refuse a source that is not lost, unless the run overrides this."""
        override, began, pace = (
            procedure.request.choices.get("override_source_lost"),
            time.monotonic(),
            pace_of(procedure.request.deadlines),
        )
        verdict = confirm_source_state(procedure, lambda line: self.log.info("%s", line))
        figures: dict[str, Any] = {
            "state": verdict.state.value,
            "override": override,
            "overridden": not verdict.lost and override is not None,
            "window_seconds": round(time.monotonic() - began, 3),
            "rounds_planned": pace.rounds,
            "look_seconds": pace.seconds,
            "slow_seconds": procedure.request.deadlines.slow_seconds,
            "verdict": SourceVerdict(**verdict.as_dict()),
        }
        if not verdict.lost and override is None:
            record_fact(procedure.authority, self.task_id, SourceNotLostNoted(**figures))
            raise refusal_of(verdict)
        # Without a fence hook the fence of a lost source can only be armed. If no watcher runs, refuse now, before
        # any cluster is changed, and not first in fence_source.
        needs_watcher = verdict.lost and procedure.systems.fence_hook is None
        return SourceConfirmedLost(**figures, watcher_seen_at=watcher_seen(procedure) if needs_watcher else None)


def refusal_of(verdict: LossVerdict) -> SourceNotLost:
    """Return the error for a source that answers, refuses writes, is slow or undecided, with what to do instead."""
    if verdict.state is SourceState.ANSWERS:
        return SourceNotLost(
            "The source still answers",
            str(verdict),
            f"Start planned_failover, which loses no records. {_OVERRIDE}",
        )
    if verdict.state is SourceState.REFUSES_WRITES:
        return SourceNotLost(
            "The source answers, but accepts no writes",
            str(verdict),
            "Repair the source (full disks, partitions without leader or with too few in-sync replicas), which may"
            f" accept writes again at any moment; then start planned_failover. {_OVERRIDE}",
        )
    if verdict.state is SourceState.SLOW:
        return SourceNotLost(
            "The source is slow",
            str(verdict),
            "Find out why the source is slow; the source may recover at any moment, and planned_failover then loses no"
            f" records. {_OVERRIDE}",
        )
    return SourceNotLost(
        "It is unknown whether the source is lost",
        str(verdict),
        "Check that the orchestrator reaches the target, and that TLS to the source works, by a request with Kafka's"
        f" tools from the machine where the task ran; correct what fails, then start a new run. {_OVERRIDE}",
    )
