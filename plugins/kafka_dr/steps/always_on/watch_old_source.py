"""Keeps the watcher of old sources running."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

from kafka_dr.watcher.watcher import watch_sources


class WatchOldSource(BaseOperator):
    """Look at every armed source once a second while the task lives; at a slow one once its last look ended."""

    def execute(self, context: Any) -> None:
        """Look until the task is ended; what goes wrong is told and looked at again."""
        watch_sources(self.log.info)
