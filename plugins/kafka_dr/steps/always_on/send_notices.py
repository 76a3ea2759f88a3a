"""Send the notices that are due after a check of readiness."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import BaseOperator

from kafka_dr.domain.runbook_pages import page_of_failure
from kafka_dr.errors import SwitchbackError
from kafka_dr.steps.always_on.channels import deliver_notice
from kafka_dr.watcher.notices import send_due_notices


class SendNotices(BaseOperator):
    """Send what is due now; the check has ended before, so that no server of notices delays it or makes it fail."""

    def execute(self, context: Any) -> None:
        """Send; a notice that is not sent is written to the log, and stands in the table of notices."""
        try:
            send_due_notices(self.log.warning, deliver_notice)
        except SwitchbackError as error:
            raise AirflowFailException(f"{error} Page: {page_of_failure(self.task_id)}") from None
