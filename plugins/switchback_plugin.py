"""Airflow plugin: loads what every step needs once, in the processes that tasks are forked from.

A task is forked from the scheduler; what is imported there costs a step nothing, and a step's imports are on the critical path.
"""

from __future__ import annotations

import airflow.providers.apache.spark.operators.spark_submit
import airflow.providers.standard.operators.hitl
import airflow.providers.standard.triggers.temporal  # noqa: F401
import confluent_kafka.admin
import pandas
import pyarrow.parquet
import sqlalchemy.dialects.sqlite  # noqa: F401
from airflow.plugins_manager import AirflowPlugin

import kafka_dr.settings  # noqa: F401

PRELOADED = (confluent_kafka.admin, pandas, pyarrow.parquet)


class SwitchbackPlugin(AirflowPlugin):
    """Names the product in Airflow's list of plugins."""

    name = "switchback"
