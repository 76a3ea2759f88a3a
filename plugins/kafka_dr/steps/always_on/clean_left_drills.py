"""Clean up what killed or preempted drills have left on the clusters."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from kafka_dr.actions.drill.janitor import clean_left_drills
from kafka_dr.config.settings import load_topology
from kafka_dr.connections import Connections
from kafka_dr.domain.runbook_pages import page_of_failure
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.journal.journal import Journal


class CleanLeftDrills(BaseOperator):
    """Remove, by names and ids, what a drill has made whose run has ended or outlived its time to live."""

    def execute(self, context: Any) -> dict[str, str]:
        """Return drill -> what became of it; fail if something is still left."""
        try:
            topology, connections = load_topology(), Connections()
            journal = Journal(connections.journal_url(topology.journal.connection))
            answers = clean_left_drills(journal, topology, connections)
        except SwitchbackError as error:
            raise AirflowFailException(f"{error} Page: {page_of_failure(self.task_id)}") from None
        left = {name: answer for name, answer in answers.items() if answer != "cleaned"}
        if left:
            listed = "; ".join(f"{name}: {answer}" for name, answer in left.items())
            raise AirflowFailException(
                f"Drills have left something. Seen: {listed}. Page: {page_of_failure(self.task_id)}"
            )
        return answers
