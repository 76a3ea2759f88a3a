"""The packaged DAGs as a DAG bundle of Airflow, so that no file need be copied.

AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST='[{"name": "switchback",
    "classpath": "kafka_dr.dag_bundle.SwitchbackDagBundle", "kwargs": {}}]'
"""

from __future__ import annotations

from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from kafka_dr.installation import dags_folder


class SwitchbackDagBundle(LocalDagBundle):
    """The DAG files of the installed version; an upgrade of the package changes them and the steps at once."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(path=str(dags_folder()), **settings)
