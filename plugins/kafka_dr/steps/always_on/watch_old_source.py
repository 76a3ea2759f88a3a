"""Keep the watcher of old sources running."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

from kafka_dr.watcher.watcher import watch_sources


class WatchOldSource(BaseOperator):
    """Look once a second at every source with an armed fence; at a slow source when the last look has ended."""

    def execute(self, context: Any) -> None:
        """Look until Airflow ends the task; an error is logged, and the next look tries again."""
        watch_sources(self.log.info)
