"""Keep the watcher of old sources running."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

from kafka_dr.watcher.watcher import watch_sources


class WatchOldSource(BaseOperator):
    """Check every armed source once a second; a slow source is checked again when its last check has ended."""

    def execute(self, context: Any) -> None:
        """Check until Airflow ends the task; errors are logged and the check is repeated."""
        watch_sources(self.log.info)
