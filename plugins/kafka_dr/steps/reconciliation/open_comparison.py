"""Open a comparison of both clusters, which keeps no other procedure from them."""

from __future__ import annotations

from typing import Any

from kafka_dr.errors import Refusal
from kafka_dr.procedure.entries import LeaseTaken
from kafka_dr.procedure.run import Run
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.vocabulary import Outcome


class OpenComparison(OpenProcedure):
    """Take the lease of comparisons of the pair, which no other procedure takes; no cool-down follows a comparison."""

    cools_down = False

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Take the lease; refuse while another comparison of the pair runs."""
        if procedure.progress.done(LeaseTaken) is None:
            _end_silent_comparison(procedure)
        return super().run_once(procedure, context, woken)


def _end_silent_comparison(procedure: Run) -> None:
    """Release the lease of a comparison that has written nothing for longer than its Spark job may take.

    Raises:
        Refusal: another comparison holds the lease and may still run.
    """
    held = procedure.journal.lease(procedure.pair)
    if held is None or held.released_at is not None or held.holder == procedure.id:
        return
    entries = procedure.journal.entries(held.holder)
    newest = entries[-1].at if entries else held.taken_at
    deadlines = procedure.topology.deadlines
    silence, most = (procedure.journal.now() - newest).total_seconds(), 2 * deadlines.spark_seconds
    if silence <= most:
        raise Refusal(
            "Another comparison of these clusters has not ended",
            f"{held.holder} last wrote to the journal {silence:.0f} s ago",
            f"Wait until it has ended, or clear its close_procedure. If it was killed, a new run may begin {most:.0f} s"
            " after its last entry.",
        )
    procedure.journal.release_lease(procedure.pair, held.holder, held.epoch, Outcome.REFUSED)
