"""Checks with Airflow's command line whether the scheduler of the site's Airflow runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

from airflow.configuration import conf

from kafka_dr.commands.without_airflow.private_airflow import database_unavailable
from kafka_dr.errors import Refusal

_THRESHOLD = "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD"
_LOOK_SECONDS = 20.0


class SchedulerCheck:
    """Reads the heartbeats of schedulers in the database of the site's Airflow."""

    def __init__(self) -> None:
        """Prepare the checks; nothing is checked yet."""
        self._check: subprocess.Popen[str] | None = None
        self._next_at, self._back = 0.0, False

    def refuse_if_alive(self, say: Callable[[str], None]) -> None:
        """Refuse if a scheduler runs; without a recent heartbeat, return at once.

        A recent heartbeat may be the last heartbeat of a scheduler that has ended. The method therefore waits for a
        newer heartbeat, up to Airflow's threshold.

        Args:
            say: prints a line for the person; called before the wait.

        Raises:
            Refusal: a scheduler wrote a heartbeat during the wait.
            SystemUnavailable: the metadata database does not answer.
        """
        began, limit = time.monotonic(), conf.getint("scheduler", "scheduler_health_check_threshold")
        if not _was_alive(limit):
            return
        say(f"The scheduler of the site's Airflow sent a heartbeat just now: waiting up to {limit} s for another")
        while (elapsed := time.monotonic() - began) < limit:
            if _was_alive(max(1, int(elapsed))):
                raise Refusal(
                    "The scheduler of the site's Airflow runs",
                    "the scheduler sent another heartbeat",
                    "Trigger or clear the run in the site's Airflow; or stop that scheduler, then run this command"
                    " again. With --anyway the command runs beside that scheduler: two processes may begin one step.",
                )

    def is_back(self) -> bool:
        """Whether a check has found the scheduler running; checks every 20 s in the background, without waiting."""
        if self._check is None and time.monotonic() >= self._next_at:
            self._check = _check(conf.getint("scheduler", "scheduler_health_check_threshold"))
        if self._check is not None and self._check.poll() is not None:
            self._back = self._back or self._check.returncode == 0
            self._check, self._next_at = None, time.monotonic() + _LOOK_SECONDS
        return self._back


def _was_alive(seconds: int) -> bool:
    """Whether a scheduler's newest heartbeat is younger than a number of seconds; SystemUnavailable if unreadable."""
    check = _check(seconds)
    output, _ = check.communicate()
    if check.returncode and "No alive jobs found" not in output:
        raise database_unavailable(output)
    return check.returncode == 0


def _check(threshold: int) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "airflow", "jobs", "check", "--job-type", "SchedulerJob"]
    return subprocess.Popen(
        # The newest heartbeats come first; Airflow 3.1 and 3.2 take no 0 for "all".
        [*argv, "--allow-multiple", "--limit", "100"],
        env=os.environ | {_THRESHOLD: str(threshold)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
