"""Examine the machine on which the task runs, on each queue that runs steps."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperator

from kafka_dr.actions.doctor.examine import examine_place
from kafka_dr.connections import Connections

#: More queues than Airflow's default queue, as a comma list.
QUEUES_VARIABLE = "SWITCHBACK_QUEUES"
#: How long a finding that may pass has to stand before it counts: longer than the restart of a broker.
STANDS_SECONDS = 60.0


class ExamineMachine(BaseOperator):
    """Run all of doctor's checks on this machine, and return what was seen; findings fail no task."""

    def execute(self, context: Any) -> str:
        """Examine, log each finding, and return the place as JSON text, as Airflow's API would not keep its parts."""
        executor = conf.get("core", "executor", fallback="LocalExecutor")
        place = examine_place(self.queue, Connections(), executor, STANDS_SECONDS, self.log.info)
        for finding in place.findings:
            self.log.warning("%s. Seen: %s. Do: %s", finding.reason, finding.seen, finding.next_step)
        return json.dumps(place.as_dict())


def queues_to_examine() -> list[str]:
    """Return Airflow's default queue, and the queues that the environment names."""
    more = (name.strip() for name in os.environ.get(QUEUES_VARIABLE, "").split(","))
    default = conf.get("operators", "default_queue", fallback="default")
    return list(dict.fromkeys(filter(None, (default, *more))))


def examine_queues() -> list[ExamineMachine]:
    """Return a task for each queue, which examines a machine that serves it."""
    return [
        ExamineMachine(task_id=f"examine_{re.sub(r'[^A-Za-z0-9_.-]', '_', queue)}", queue=queue)
        for queue in queues_to_examine()
    ]
