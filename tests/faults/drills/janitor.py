"""Clean up left drills once, as the task of schedule_drills does, on a lab without Airflow; prints drill -> answer.

The argument: how many seconds from now the clean-up takes place, by the journal's clock as it is read.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta

os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")

from kafka_dr.actions.drill.given_up import close_given_up_drills
from kafka_dr.actions.drill.janitor import clean_left_drills
from kafka_dr.config.settings import load_topology
from kafka_dr.connections import Connections
from kafka_dr.hooks.journal.journal import Journal


class LaterJournal(Journal):
    """A journal whose time is later; entries and leases that it writes keep the real time."""

    def now(self):
        """Return the later time."""
        return super().now() + timedelta(seconds=float(sys.argv[1]))


if __name__ == "__main__":
    topology, connections = load_topology(), Connections()
    journal = LaterJournal(connections.journal_url(topology.journal.connection))
    answers = clean_left_drills(journal, topology, connections)
    print("ANSWERS " + json.dumps(answers | close_given_up_drills(journal, topology, connections)))
