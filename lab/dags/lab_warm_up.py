"""### lab_warm_up

Runs one task that does nothing. A successful run shows that tasks run in this lab, and that the API has built its
routes.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag, task


@dag(schedule=None, catchup=False, tags=["lab"], doc_md=__doc__)
def lab_warm_up() -> None:
    """Define a DAG with one task that succeeds."""

    @task(retries=5, retry_delay=timedelta(seconds=1))
    def run_once() -> str:
        """Return a text, so that Airflow also writes an XCom."""
        return "warm"

    run_once()


lab_warm_up()
