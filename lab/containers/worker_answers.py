"""Asks a Celery worker for an answer, as its health check: `python -m lab.containers.worker_answers`.

Exits with 0 if the worker answers. Airflow's own check loads all of Airflow: many seconds of a core at each check.
"""

from __future__ import annotations

import shlex
import socket
import sys

from celery import Celery

from lab.containers.stack import ROOT
from lab.environment.state import Lab

_BROKER = "AIRFLOW__CELERY__BROKER_URL"
ANSWER_SECONDS = 10.0


def answers_ping(worker: str, broker: str) -> bool:
    """Whether a worker answers to a ping in Celery's queue.

    Args:
        worker: name of the worker, `celery@HOST`.
        broker: URL of the queue, with its password.
    """
    with Celery(broker=broker) as application:
        return bool(application.control.ping(destination=[worker], timeout=ANSWER_SECONDS, limit=1))


def main() -> int:
    """Ask the worker of this container; return 0 if it answers, else 1."""
    settings = dict(word.split("=", 1) for word in shlex.split(Lab(ROOT).airflow_env.read_text(encoding="utf-8")))
    return 0 if answers_ping(f"celery@{socket.gethostname()}", settings[_BROKER]) else 1


if __name__ == "__main__":
    sys.exit(main())
