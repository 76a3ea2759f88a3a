"""Roll back an aborted procedure whose run does not roll back by itself."""

from __future__ import annotations

import time
from typing import Any

from kafka_dr.procedure.entries import SourceReturned
from kafka_dr.procedure.run import Run
from kafka_dr.steps.abort.abort_procedure import AbortedStep
from kafka_dr.steps.shared.return_to_source import ReturnToSource

#: How long the aborted run may take to notice the abort and to roll back by itself.
_OWN_RETURN_SECONDS = 15.0
_LOOK_AGAIN_SECONDS = 0.2


class ReturnAborted(AbortedStep, ReturnToSource):
    """Wait 15 s for the aborted run to roll itself back; if it does not, roll back in its place."""

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Wait up to 15 s for the aborted run's own rollback, then roll back what is left.

        The wait avoids two rollbacks at once, of which the one with the newer epoch would stop the other.

        Args:
            woken: whether Airflow wakes the step after a wait; then it does not wait for the other rollback.
        """
        ends_at = time.monotonic() + _OWN_RETURN_SECONDS
        while not woken and time.monotonic() < ends_at and procedure.progress.done(SourceReturned) is None:
            time.sleep(_LOOK_AGAIN_SECONDS)
        return super().run_once(procedure, context, woken)
