"""Deadlines strike wherever the main thread is, but in no undo and in no write to the journal."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr import interrupts
from kafka_dr.concurrently import run_concurrently
from kafka_dr.errors import DeadlinePassed, LeaseLost
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.interrupts import HUNG, hold_back, interrupted_after, let_through
from kafka_dr.procedure.authority import acting_under
from kafka_dr.procedure.entries import StepFailed
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.vocabulary import Entry, Step

ROOT = Path(__file__).parents[3]
#: Waits for a lock outside of Python, for ever: signals are taken, and Python's handlers do not run.
HANG = """
import ctypes
def hang():
    mutex = ctypes.create_string_buffer(64)
    ctypes.CDLL(None).pthread_mutex_lock(mutex), ctypes.CDLL(None).pthread_mutex_lock(mutex)
"""


def late() -> DeadlinePassed:
    """What strikes."""
    return DeadlinePassed("late")


def bounded(seconds: float) -> Any:
    """A block that is interrupted after so many seconds."""
    return interrupted_after(seconds, late, lambda: None)


def run_script(script: str, *arguments: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a program with the project on its path."""
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("plugins", "spark", "."))
    return subprocess.run(
        [sys.executable, "-c", HANG + script, *arguments], capture_output=True, text=True, timeout=seconds,
        check=False, env=os.environ | {"PYTHONPATH": paths}, cwd=ROOT,
    )  # fmt: skip


@contextmanager
def within(seconds: float) -> Any:
    """What is inside lasts no longer."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def test_a_deadline_strikes_in_python() -> None:
    """At once, and nothing strikes once the block is left."""
    with within(10), pytest.raises(DeadlinePassed), bounded(0.1):
        time.sleep(30)
    time.sleep(1.2)


def test_a_block_that_ends_in_time_is_left_alone() -> None:
    """Also afterwards."""
    with bounded(0.3):
        pass
    time.sleep(0.5)


def test_what_swallows_the_first_strike_is_struck_again() -> None:
    """Every second, until the block is left."""
    with within(10), pytest.raises(DeadlinePassed), bounded(0.05):
        with suppress(DeadlinePassed):
            time.sleep(30)
        time.sleep(30)


def test_a_region_ends_before_the_strike() -> None:
    """Which comes right after it; a part of the region that lets it through is struck."""
    seen: list[str] = []
    with pytest.raises(DeadlinePassed), bounded(0.05):
        with hold_back():
            time.sleep(1.5)
            seen.append("held")
            with hold_back():
                seen.append("nested")
            seen.append("end")
        seen.append("too late")
    assert seen == ["held", "nested", "end"]
    with pytest.raises(DeadlinePassed), bounded(0.05), hold_back():
        with let_through():
            time.sleep(30)


def test_an_error_of_the_region_is_not_replaced() -> None:
    """The deadline is no reason to forget why something failed."""
    with pytest.raises(KeyError), bounded(0.05), hold_back():
        time.sleep(0.3)
        raise KeyError("own")


def test_a_write_to_the_journal_is_not_cut_in_two(journal_url: str) -> None:
    """The entry is written, then the deadline strikes."""

    def slow() -> datetime:
        time.sleep(0.6)
        return datetime.now(UTC)

    journal = Journal(journal_url, clock=slow)
    with pytest.raises(DeadlinePassed), bounded(0.2):
        journal.append("p", "s", "note", 0, {})
        time.sleep(30)
    assert [entry.kind for entry in journal.entries()] == ["note"] and journal.verify() is None


@pytest.fixture(params=["sqlite", "postgresql"])
def journal_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new journal's database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'journal.db'}"
    server = request.getfixturevalue("postgresql")
    return server.url(server.make_database())


class LostAuthority:
    """The right to act is lost while the body acts."""

    def __init__(self) -> None:
        self.held = False

    def hold(self) -> None:
        """Succeed once."""
        if self.held:
            raise LeaseLost("lost")
        self.held = True

    def may_undo(self) -> bool:
        """The rollback has begun."""
        return True


def spin(seconds: float) -> None:
    """Be in Python code for a while."""
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        pass


def test_whenever_it_strikes_a_late_act_is_undone_whole() -> None:
    """The deadline falls before, in, or after the body, and on the way from the body to the undo."""
    chance, struck = random.Random(1), 0
    for _ in range(150):
        begun, undone = [], []

        def undo(undone: list[str] = undone) -> None:
            undone.append("begun")
            spin(0.002)
            undone.append("done")

        try:
            with bounded(0.01):
                spin(chance.uniform(0.006, 0.009))
                with acting_under(LostAuthority(), undo):
                    begun.append("acts")
                    spin(chance.uniform(0, 0.004))
        except (LeaseLost, DeadlinePassed) as error:
            struck += isinstance(error, DeadlinePassed) or isinstance(error.__context__, DeadlinePassed)
        # The deadline may fall after the body was entered, and before it has noted that.
        assert undone == ["begun", "done"] or (undone, begun) == ([], [])
    assert struck > 0


# A main thread that hangs outside of Python.


def test_a_process_that_hangs_is_ended() -> None:
    """After its last words; the main thread never took the error."""
    done = run_script("""
from kafka_dr import interrupts
interrupts.HANG_SECONDS = 0.5
with interrupts.interrupted_after(0.2, lambda: KeyError("late"), lambda: print("last words", flush=True)):
    hang()
print("never")
""")
    assert (done.returncode, done.stdout) == (HUNG, "last words\n")


def test_last_words_that_hang_delay_nothing_for_ever() -> None:
    """A journal out of reach keeps no process alive."""
    done = run_script("""
import time
from kafka_dr import interrupts
interrupts.HANG_SECONDS = 0.5
with interrupts.interrupted_after(0.2, lambda: KeyError("late"), lambda: time.sleep(60)):
    hang()
""")
    assert done.returncode == HUNG


def test_no_process_is_ended_while_a_thread_undoes() -> None:
    """It ends when the undo is whole."""
    done = run_script("""
import threading, time
from kafka_dr import interrupts
interrupts.HANG_SECONDS = 0.5
def undo():
    with interrupts.hold_back():
        time.sleep(3)
        print("undone", flush=True)
threading.Thread(target=undo, daemon=True).start()
with interrupts.interrupted_after(0.1, lambda: KeyError("late"), lambda: print("last words", flush=True)):
    hang()
""")
    assert (done.returncode, done.stdout) == (HUNG, "undone\nlast words\n")


def test_an_undo_that_hangs_is_waited_for() -> None:
    """Nobody else would undo it."""
    with pytest.raises(subprocess.TimeoutExpired):
        run_script(
            """
from kafka_dr import interrupts
interrupts.HANG_SECONDS = 0.2
with interrupts.interrupted_after(0.1, lambda: KeyError("late"), print), interrupts.hold_back():
    hang()
""",
            seconds=5,
        )


class Fenced(ProcedureStep):
    """A step behind the fence."""

    def act(self, procedure: Any, context: Any) -> Any:
        """Do nothing."""
        raise NotImplementedError


def test_a_step_that_hangs_fails_in_the_journal_and_is_not_repeated(bench: Any) -> None:
    """Airflow sees a process that ended; its retry is refused by the fence's clock, so that the procedure returns."""
    bench.params = bench.params | {"max_fence_seconds": 1.0}
    procedure = bench.opened()
    procedure.authority.write(Step.FENCE_PRODUCERS, Entry.INTENT, {})
    pid = os.fork()
    if pid == 0:
        interrupts.HANG_SECONDS = 0.5
        scope: dict[str, Any] = {}
        exec(HANG, scope)
        Fenced.act = lambda *_: scope["hang"]()
        with suppress(BaseException):
            Fenced(task_id=Step.WAIT_FOR_ZERO_LAG).execute(bench.context())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == HUNG
    (failed,) = [
        StepFailed.from_payload(e.payload) for e in bench.entries(Step.WAIT_FOR_ZERO_LAG) if e.kind == Entry.FAILURE
    ]
    assert failed.error == "DeadlinePassed"
    with pytest.raises(AirflowFailException, match="fenced for as long as allowed"):
        Fenced(task_id=Step.WAIT_FOR_ZERO_LAG).execute(bench.context(attempt=2))


# Calls on other threads.


def test_a_call_that_hangs_does_not_keep_the_block() -> None:
    """The deadline strikes within the block, and again in its wait for the calls."""
    never = threading.Event()
    with within(10), pytest.raises(DeadlinePassed), bounded(0.2):
        with run_concurrently() as start:
            start(never.wait, 30).result()
    never.set()


def test_a_call_that_hangs_does_not_keep_the_process() -> None:
    """Threads are left behind at the end of the process, too."""
    with within(40):
        done = run_script("""
from kafka_dr.concurrently import run_concurrently
from kafka_dr.interrupts import interrupted_after
try:
    with interrupted_after(0.2, lambda: KeyError("late"), print), run_concurrently() as start:
        start(hang).result()
except KeyError:
    print("left")
""")
    assert (done.returncode, done.stdout) == (0, "left\n")


def test_calls_run_at_once_and_all_are_waited_for() -> None:
    """Eight at a time; an error of the block waits for them, too."""
    running, most, ended = [], [], []

    def call(number: int) -> int:
        running.append(number)
        most.append(len(running))
        time.sleep(0.05)
        running.remove(number)
        ended.append(number)
        return number

    with pytest.raises(KeyError), run_concurrently() as start:
        futures = [start(call, number) for number in range(20)]
        raise KeyError
    assert sorted(ended) == list(range(20)) == [future.result() for future in futures] and 1 < max(most) <= 8


def test_an_error_of_a_call_is_its_results() -> None:
    """And none of the block's."""

    def fail() -> None:
        raise KeyError("own")

    with run_concurrently() as start:
        failed, named = start(fail), start(dict, a=1)
    assert named.result() == {"a": 1}
    with pytest.raises(KeyError):
        failed.result()
