"""Return for a procedure whose own run does not run any more."""

from __future__ import annotations

import time
from typing import Any

from kafka_dr.procedure.entries import SourceReturned
from kafka_dr.procedure.run import Run
from kafka_dr.steps.abort.abort_procedure import AbortedStep
from kafka_dr.steps.shared.return_to_source import ReturnToSource

#: How long the aborted run is given to see the abort and to begin its own return.
_OWN_RETURN_SECONDS = 15.0
_LOOK_AGAIN_SECONDS = 0.2


class ReturnAborted(AbortedStep, ReturnToSource):
    """Wait for the procedure's own return; where nothing of it runs, return in its place."""

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Its own return has the first turn: two at once would take each other's epochs."""
        ends_at = time.monotonic() + _OWN_RETURN_SECONDS
        while not woken and time.monotonic() < ends_at and procedure.progress.done(SourceReturned) is None:
            time.sleep(_LOOK_AGAIN_SECONDS)
        return super().run_once(procedure, context, woken)
