"""Read the source's authorizer logs, on the machine that runs the step, for clients that only they show."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

from kafka_dr.domain.clients.authorizer_log import AuthorizerLog
from kafka_dr.domain.clients.logged_clients import NO_LOG, LoggedClients, find_logged_clients
from kafka_dr.domain.readiness.observation import Observation
from kafka_dr.hooks.log_files import newest_lines
from kafka_dr.procedure.run import Run

#: How long all logs together are read, in seconds; logs that come later share what is left of that time.
_READ_SECONDS = 30.0


def read_logged_clients(procedure: Run, observed: Observation) -> LoggedClients:
    """Return what the source's authorizer logs show of the clients of the plan's topics.

    A log that cannot be read is no error: what is then unknown is said in the result.
    """
    named = procedure.topology.cluster(procedure.request.source).authorizer_logs
    if procedure.in_drill:
        return LoggedClients(problems=("a drill reads no authorizer log",))
    if not named:
        return NO_LOG
    ends_at, logs = time.monotonic() + _READ_SECONDS, dict[str, AuthorizerLog | str]()
    for number, path in enumerate(named):
        logs[path] = _read_log(path, (ends_at - time.monotonic()) / (len(named) - number))
    return find_logged_clients(
        logs,
        observed.source.brokers,
        observed.source.rules,
        frozenset(observed.scope),
        observed.exempt[observed.source.alias],
        datetime.fromtimestamp(procedure.progress.now(), UTC),
    )


def _read_log(path: str, seconds: float) -> AuthorizerLog | str:
    """Return what a log tells, or why it cannot be read and what to do."""
    log = AuthorizerLog()
    try:
        for line in newest_lines(path, seconds):
            log.add(line)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        return (
            f"cannot be read ({why}); bring the broker's log to each machine that runs Airflow's tasks, readable by"
            " their user, or correct authorizer_logs"
        )
    return log
