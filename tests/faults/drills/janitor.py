"""Clean up left drills once, as the task of schedule_drills does, on a lab without Airflow; prints drill -> answer."""

from __future__ import annotations

import json
import os

os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")

from kafka_dr.actions.drill.janitor import clean_left_drills
from kafka_dr.config.settings import load_topology
from kafka_dr.connections import Connections
from kafka_dr.hooks.journal.journal import Journal

if __name__ == "__main__":
    topology, connections = load_topology(), Connections()
    journal = Journal(connections.journal_url(topology.journal.connection))
    print("ANSWERS " + json.dumps(clean_left_drills(journal, topology, connections)))
