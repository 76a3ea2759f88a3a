"""Keep the watcher of old sources running."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

from kafka_dr.watcher.watcher import watch_sources


class WatchOldSource(BaseOperator):
    """Send every source with an armed fence a request each second; to a slow source, after the last request ended."""

    def execute(self, context: Any) -> None:
        """Watch until Airflow ends the task; an error is logged, and the next request tries again."""
        watch_sources(self.log.info)
