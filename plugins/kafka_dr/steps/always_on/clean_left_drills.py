"""Clean up what killed or preempted drills have left on the clusters, and close drills that are given up."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import BaseOperator

from kafka_dr.actions.drill.given_up import CLOSED, close_given_up_drills
from kafka_dr.actions.drill.janitor import CLEANED, clean_left_drills
from kafka_dr.config.settings import load_topology
from kafka_dr.connections import Connections
from kafka_dr.domain.runbook_pages import page_of_failure
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.journal.journal import Journal


class CleanLeftDrills(BaseOperator):
    """Remove, by names and ids, what drills have made whose run has ended or outlived its time to live.

    A drill that is given up, because nothing was written for it for longer than a drill waits, is closed as failed.
    """

    def execute(self, context: Any) -> dict[str, str]:
        """Return drill -> what became of it; fail if something is still left, or a drill could not be closed."""
        try:
            topology, connections = load_topology(), Connections()
            journal = Journal(connections.journal_url(topology.journal.connection))
            cleaned = clean_left_drills(journal, topology, connections)
            closed = close_given_up_drills(journal, topology, connections)
        except SwitchbackError as error:
            raise AirflowFailException(f"{error} Page: {page_of_failure(self.task_id)}") from None
        answers = [*cleaned.items(), *closed.items()]
        if problems := [f"{name}: {answer}" for name, answer in answers if answer not in (CLEANED, CLOSED)]:
            raise AirflowFailException(
                f"Drills have left something, or could not be closed. Seen: {'; '.join(problems)}. Page:"
                f" {page_of_failure(self.task_id)}"
            )
        return cleaned | closed
