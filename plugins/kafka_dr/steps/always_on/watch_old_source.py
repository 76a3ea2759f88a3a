"""Keep the watcher of old sources running, which also sends notices."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

from kafka_dr.steps.always_on.channels import deliver_notice
from kafka_dr.watcher.watcher import watch_sources


class WatchOldSource(BaseOperator):
    """Send a request each second to every source with an armed fence; never two at once to the same source."""

    def execute(self, context: Any) -> None:
        """Watch until Airflow ends the task; an error is logged, and the next request tries again."""
        watch_sources(self.log.info, deliver_notice)
