"""The health check of a Celery worker; and that the locked Celery fits Airflow's provider."""

from __future__ import annotations

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker

from lab.containers import worker_answers

BROKER = "memory://"


def test_only_a_worker_that_takes_tasks_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked by its name in Celery's queue."""
    application = Celery(broker=BROKER, backend="cache+memory://")
    with start_worker(application, perform_ping_check=False, hostname="celery@here"):
        assert worker_answers.answers_ping("celery@here", BROKER)
        monkeypatch.setattr(worker_answers, "ANSWER_SECONDS", 1.0)
        assert not worker_answers.answers_ping("celery@elsewhere", BROKER)


def test_the_executor_and_its_commands_can_be_loaded() -> None:
    """Celery 5.7 lacks a name that the provider imports, and the scheduler then starts again and again."""
    from airflow.providers.celery.cli import celery_command
    from airflow.providers.celery.executors.celery_executor import CeleryExecutor

    assert callable(CeleryExecutor.sync) and callable(celery_command.worker)
