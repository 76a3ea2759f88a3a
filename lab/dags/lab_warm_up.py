"""### lab_warm_up

Does nothing but run: when it has succeeded, tasks run in this lab and the API has built its routes.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag, task


@dag(schedule=None, catchup=False, tags=["lab"], doc_md=__doc__)
def lab_warm_up() -> None:
    """One task that succeeds."""

    @task(retries=5, retry_delay=timedelta(seconds=1))
    def run_once() -> str:
        """Answer something, so that an XCom is written too."""
        return "warm"

    run_once()


lab_warm_up()
