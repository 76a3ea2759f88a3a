"""Sends one notice on one route of the topology's `notifications`, and states what became of it."""

from __future__ import annotations

from datetime import datetime

from airflow.providers.common.compat.sdk import AirflowNotFoundException, conf

from kafka_dr.config.notifications import NotificationRoute
from kafka_dr.domain.notices.notice import Notice
from kafka_dr.hooks.journal.notices import NoticeState
from kafka_dr.hooks.redaction import one_line
from kafka_dr.watcher.notices import Delivery

_LONGEST_LINE = 1_000
#: In the text of an error: the connection is wrong, or failed before the notice was sent.
_BEFORE_SENDING = (
    "InvalidHeader",
    "InvalidURL",
    "InvalidSchema",
    "NewConnectionError",
    "NameResolution",
    "ConnectTimeout",
    "CERTIFICATE_VERIFY_FAILED",
    "ConnectionRefused",
    "Connection refused",
    "gaierror",
)


def deliver_notice(route: NotificationRoute, notice: Notice, now: datetime) -> Delivery:
    """Send a notice on a route, and return what became of it; raise nothing.

    Args:
        now: the journal's time, from which the seconds left are counted.
    """
    title, *lines = (one_line(line, _LONGEST_LINE) for line in (notice.title(), *notice.body(now, airflow_url())))
    try:
        # Imported late: the providers take seconds and memory, and most runs of a watcher send nothing.
        from kafka_dr.steps.always_on.notifiers import SENDERS  # noqa: PLC0415

        return SENDERS[route.kind](route, notice, title, lines)
    except AirflowNotFoundException:
        return Delivery(NoticeState.WAITING, f"Airflow has no usable connection {route.connection}")
    except ImportError:
        return Delivery(NoticeState.WAITING, f"the provider for {route.kind} is missing: install requirements.txt")
    except Exception as error:  # noqa: BLE001 (whatever a provider raises: the notice may have been sent)
        early = any(cause in repr(error) for cause in _BEFORE_SENDING)
        detail = f"{type(error).__name__}{', before it was sent' if early else ''}"
        return Delivery(NoticeState.WAITING if early else NoticeState.UNKNOWN, detail)


def airflow_url() -> str:
    """Return Airflow's address as people reach it; "" if Airflow's configuration on this machine does not state it."""
    return str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
