"""The base of every step: takes an epoch, checks predecessors, writes the intent, acts, and writes the outcome.

Invariants
1. No act without the lease under this process's own epoch and an intent in the journal. Each process of a step takes
   a new epoch, so that an older process, such as an orphaned or frozen one, can no longer act or write. A process that
   Airflow wakes after a wait keeps the newest epoch.
2. Predecessors are looked up in the journal: a task marked successful manually has no outcome in the journal.
3. A refusal ends the step at once. A step outlasts errors of outside systems that may pass, for `outage_seconds`; after
   other errors of outside systems Airflow retries the step.
4. Between fence and open_target no step outlasts `max_fence_seconds`: a hanging step is interrupted; if it cannot be
   interrupted, its process is ended.
5. A step with an outcome is skipped, unless its proof may have expired, or a predecessor has a newer outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from kafka_dr.domain.runbook_pages import page_of_failure
from kafka_dr.errors import DeadlinePassed, Superseded, SwitchbackError, SystemUnavailable
from kafka_dr.interrupts import interrupted_after
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.binding import refuse_broken_binding
from kafka_dr.procedure.entries import StepOutcome, TryBegun
from kafka_dr.procedure.find import procedure_of
from kafka_dr.procedure.progress import WaitLonger, not_done
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

WAKE_AFTER = timedelta(seconds=5)
#: How long a step waits for the journal before it begins, and between two attempts, in seconds.
_JOURNAL_SECONDS, _JOURNAL_PAUSE = 60.0, 1.0


class JournaledStep:
    """Base of steps and gates: writes their work and errors to the journal. `task_id` is the step's name."""

    task_id: str
    upstream_task_ids: set[str]
    log: Any

    @contextmanager
    def recorded(self, context: Any) -> Iterator[Run]:
        """Yield the procedure; write an error of the block to the journal, and raise an Airflow exception for it."""
        # A journal whose database restarts or fails over is back after some seconds.
        attempts = Retrying(
            stop=stop_after_delay(_JOURNAL_SECONDS),
            wait=wait_fixed(_JOURNAL_PAUSE),
            retry=retry_if_exception(lambda error: isinstance(error, SystemUnavailable) and error.may_pass),
            reraise=True,
        )
        try:
            procedure = attempts(self._checked_procedure, context)
        except SwitchbackError as error:
            raise _as_airflow(error, self.task_id) from None
        try:
            yield procedure
        except SwitchbackError as error:
            self._try_to_record(procedure, error)
            raise _as_airflow(error, self.task_id) from error
        except (AirflowException, WaitLonger):
            raise
        except Exception as error:
            self._try_to_record(
                procedure,
                SwitchbackError(
                    f"{type(error).__name__} in {self.task_id}",
                    next_step="Airflow tries the task again while tries remain. If all tries fail, correct the fault"
                    " that the traceback in the task's log shows, then clear the task.",
                ),
            )
            raise
        finally:
            procedure.close()

    def _checked_procedure(self, context: Any) -> Run:
        """Return the procedure; refuse if the journal is contradicted, or if the run must not write to the journal."""
        procedure = self.procedure(context)
        try:
            # Before any write: another run may have this procedure id, or another procedure may continue this one.
            if not procedure.in_drill:
                procedure.anchors.refuse_contradicted_journal()
            procedure.progress.refuse_other_run(procedure.identity.run_id)
            procedure.lease.refuse_if_continued()
        except SwitchbackError:
            procedure.close()
            raise
        return procedure

    def procedure(self, context: Any) -> Run:
        """Return the procedure that the step acts for: the procedure of the task's DAG run, except in a subclass."""
        return procedure_of(context)

    def _try_to_record(self, procedure: Run, error: SwitchbackError) -> None:
        """Write the step's failure to the journal; only log a journal error, which must not hide that failure."""
        if isinstance(error, Superseded):
            return
        try:
            self.record_failure(procedure, error)
        except SwitchbackError as journal_error:
            self.log.error("The failure could not be written to the journal: %s", journal_error)  # noqa: TRY400 (no trace)

    def record_failure(self, procedure: Run, error: SwitchbackError) -> None:
        """Write to the journal why the step did not do its work."""
        record_fact(procedure.authority, self.task_id, not_done(error))

    def already_done(self, procedure: Run) -> bool:
        """Whether the step has an outcome that is newer than the outcomes of all its predecessors."""
        done = procedure.journal.last(procedure.id, self.task_id, Entry.OUTCOME)
        if done is None:
            return False
        predecessors = [procedure.journal.last(procedure.id, step, Entry.OUTCOME) for step in self.upstream_task_ids]
        return all(entry is None or entry.sequence < done.sequence for entry in predecessors)

    def begin(self, procedure: Run, context: Any, woken: bool = False) -> None:
        """Refuse after an abort, the fence's deadline, or a broken binding; take an epoch, check predecessors, intend.

        Args:
            woken: whether the process continues a wait, and therefore keeps the newest epoch.
        """
        # Check before the new epoch, which would supersede a running rollback, and again after the new epoch, because
        # a rollback may have begun meanwhile.
        procedure.progress.refuse_if_going_back()
        take_new_epoch(procedure, woken)
        procedure.progress.refuse_if_going_back()
        procedure.progress.check_fence_clock()
        refuse_broken_binding(procedure)
        procedure.refuse_if_preempted()
        for step in sorted(self.upstream_task_ids):
            procedure.progress.outcome_entry(step)
        self.intend(procedure, context)

    def intend(self, procedure: Run, context: Any) -> None:
        """Write the intent of Airflow's current try, unless the journal has it; waits are measured from this entry."""
        attempt = getattr(context.get("ti"), "try_number", 1)
        begun = TryBegun(attempt=attempt)
        if begun not in procedure.progress.facts(TryBegun, self.task_id):
            record_fact(procedure.authority, self.task_id, begun)


def take_new_epoch(procedure: Run, woken: bool) -> None:
    """Take a new epoch; a process woken after a wait keeps the newest epoch instead."""
    if woken:
        procedure.authority.hold()
    else:
        procedure.lease.take_new_epoch()


def _as_airflow(error: SwitchbackError, step: str) -> AirflowException:
    """Return the Airflow exception for an error, whose text names the runbook heading of the step that failed.

    Airflow retries the task only if a system did not answer, or a newer process acts.
    """
    message = f"{error} Page: {page_of_failure(step)}"
    may_retry = isinstance(error, SystemUnavailable | Superseded)
    return AirflowException(message) if may_retry else AirflowFailException(message)


@contextmanager
def bounded_by_fence(procedure: Run, record: Callable[[SwitchbackError], object]) -> Iterator[None]:
    """Interrupt the block with DeadlinePassed at the fence's deadline; do nothing once open_target has begun.

    Works only in the main thread, because no other thread gets signals.

    Args:
        record: writes the step's failure to the journal; called only if the block hangs in code that takes no signal,
            before the process is ended.
    """
    deadline = procedure.progress.fence_deadline()
    if deadline is None or procedure.progress.began(Step.OPEN_TARGET) is not None:
        yield
        return

    def late() -> DeadlinePassed:
        return DeadlinePassed(
            "Clients have been fenced for as long as allowed",
            f"the step was interrupted; the fence is on {procedure.request.source}",
            "The procedure returns to the source by itself. Find out why the step took so long before you start a new"
            " run.",
        )

    with interrupted_after(deadline - procedure.progress.now(), late, lambda: record(late())):
        yield


class ProcedureStep(JournaledStep, BaseOperator):
    """One step of a procedure. Subclasses do the work in `act`, which must be safe to repeat.

    Attributes:
        expires: whether what the step proved may become untrue, so that a task that runs again acts again in spite of
            its outcome.
        bounded: whether the step is interrupted when the fence has lasted `max_fence_seconds` and open_target has not
            begun.
    """

    expires = False
    bounded = True

    def execute(self, context: Any) -> dict[str, Any]:
        """Run the step in a new process, under a new epoch; return the XCom value."""
        return self._execute(context, woken=False)

    def resume(self, context: Any, event: Any = None, outlasted: float = 0.0) -> dict[str, Any]:
        """Run the step again when Airflow wakes it after a wait, under the same epoch; return the XCom value.

        Args:
            outlasted: for how many seconds the step has outlasted errors of systems.
        """
        return self._execute(context, woken=True, outlasted=outlasted)

    def _execute(self, context: Any, woken: bool, outlasted: float = 0.0) -> dict[str, Any]:
        with self.recorded(context) as procedure:
            procedure.progress.outlasted = outlasted
            try:
                return self.run_once(procedure, context, woken)
            except WaitLonger as wait:
                self.log.info("%s", wait)
                lasted = wait.outlasted
                kwargs = {} if lasted is None else {"outlasted": lasted + WAKE_AFTER.total_seconds()}
        self.defer(trigger=TimeDeltaTrigger(WAKE_AFTER), method_name="resume", kwargs=kwargs)
        return None

    def run_once(self, procedure: Run, context: Any, woken: bool = False) -> dict[str, Any]:
        """Begin, act and write the outcome; do nothing if an earlier outcome still counts. Return the XCom value.

        Args:
            woken: whether Airflow wakes the step after a wait; the step then keeps the newest epoch.
        """
        if not self.expires and self.already_done(procedure):
            self.log.info("%s is already done", self.task_id)
            return {"done": self.task_id}
        procedure.progress.outlast(partial(self.begin, procedure, context, woken))
        self._log_countdown(procedure)
        record = partial(self._try_to_record, procedure)
        with bounded_by_fence(procedure, record) if self.bounded else nullcontext():
            outcome = procedure.progress.outlast(partial(self.act, procedure, context))
        if missed := procedure.anchors.list_missed():
            self.log.warning("Places without the journal's anchors: %s", missed)
            record_fact(procedure.authority, self.task_id, missed)
        record_fact(procedure.authority, self.task_id, outcome)
        return {"done": self.task_id}

    def _log_countdown(self, procedure: Run) -> None:
        deadline = procedure.progress.fence_deadline()
        if deadline is not None and procedure.progress.began(Step.OPEN_TARGET) is None:
            ends = datetime.fromtimestamp(deadline, UTC).isoformat(timespec="seconds")
            self.log.info(
                "Clients are fenced; at %s, in %.0f s, the procedure returns to the source by itself",
                ends,
                deadline - procedure.progress.now(),
            )

    def act(self, procedure: Run, context: Any) -> StepOutcome:
        """Do the step's work and read the result back; return the outcome, which says what was done and proven."""
        raise NotImplementedError
