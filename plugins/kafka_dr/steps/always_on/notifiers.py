"""Airflow's notifiers for SMTP, Slack and webhooks; each sends a notice at most once, and logs nothing.

A notifier that tried again by itself could send a notice twice: a server may have taken what it did not confirm. What a
server answers, and its address, may hold a secret, so that an error is told by its kind and code alone.
"""

from __future__ import annotations

import html
import logging
import smtplib
from collections.abc import Callable
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.providers.http.hooks.http import HttpHook
from airflow.providers.http.notifications.http import HttpNotifier
from airflow.providers.smtp.hooks.smtp import SmtpHook
from airflow.providers.smtp.notifications.smtp import SmtpNotifier

from kafka_dr.config.notifications import NotificationRoute
from kafka_dr.domain.notices.notice import Notice
from kafka_dr.hooks.journal.notices import NoticeState
from kafka_dr.watcher.notices import Delivery

#: Timeout of each operation with a server, in seconds.
TIMEOUT_SECONDS = 10
#: Codes with which a server says that it takes no notice now, but may later.
_LATER = (429, 503)
_SILENCE = logging.getLogger("kafka_dr.notices.silence")
_SILENCE.disabled = True


def _answered(system: str, code: int) -> Delivery:
    """Return what a server's status code, as HTTP has it, means for a notice."""
    if 200 <= code < 300:
        return Delivery(NoticeState.SENT)
    return Delivery(NoticeState.WAITING if code in _LATER else NoticeState.NOT_SENT, f"{system} answered {code}")


# -- mail ----------------------------------------------------------------------------------------------------------


class _OneTrySmtpHook(SmtpHook):
    """The provider's hook, which would send a mail again after any error; `connected` once the server has let it in."""

    connected = False
    smtp_retry_limit = 0
    timeout = TIMEOUT_SECONDS
    log = _SILENCE  # type: ignore[assignment]  # the provider's own class of loggers

    def get_conn(self) -> SmtpHook:
        """Connect and log in."""
        super().get_conn()
        self.connected = True
        return self


def _send_mail(route: NotificationRoute, _notice: Notice, title: str, lines: list[str]) -> Delivery:
    # The notifier sends HTML only.
    text = html.escape("\n".join(lines))
    notifier = SmtpNotifier(
        to=list(route.to), subject=title, html_content=f"<pre>{text}</pre>", smtp_conn_id=route.connection
    )
    hook = _OneTrySmtpHook(route.connection)
    vars(notifier)["hook"] = hook
    try:
        notifier.notify({})
    except AirflowNotFoundException:
        raise
    except Exception as error:  # noqa: BLE001 (the provider raises errors of many kinds)
        return _mail_failure(error, hook.connected)
    return Delivery(NoticeState.SENT)


def _mail_failure(error: Exception, connected: bool) -> Delivery:
    codes = [code for code, _ in error.recipients.values()] if isinstance(error, smtplib.SMTPRecipientsRefused) else []
    codes += [error.smtp_code] if isinstance(error, smtplib.SMTPResponseException) else []
    detail = " ".join([type(error).__name__, *(f"(SMTP {code})" for code in sorted(set(codes)))])
    if not connected:
        return Delivery(NoticeState.WAITING, f"{detail}, before it was sent")
    if codes:
        temporary = all(400 <= code < 500 for code in codes)
        return Delivery(NoticeState.WAITING if temporary else NoticeState.NOT_SENT, detail)
    if isinstance(error, ValueError):
        # The connection names no sender.
        return Delivery(NoticeState.WAITING, "the connection's extra has no from_email")
    return Delivery(NoticeState.UNKNOWN, detail)


# -- HTTP ----------------------------------------------------------------------------------------------------------


class _QuietHttpHook(HttpHook):
    """The provider's hook, which logs addresses and answers."""

    log = _SILENCE  # type: ignore[assignment]  # the provider's own class of loggers


class _Webhook(HttpNotifier):
    """The provider's notifier; `status` is the code of the answer, and an error code raises nothing."""

    status = 0

    def notify(self, context: Any) -> None:
        """Send the document, and keep the status."""
        hook = _QuietHttpHook(method=self.method, http_conn_id=self.http_conn_id)
        self.status = hook.run(
            endpoint=self.endpoint, headers=self.headers, extra_options=self.extra_options, json=self.json
        ).status_code


def _send_webhook(route: NotificationRoute, notice: Notice, title: str, lines: list[str]) -> Delivery:
    document = {
        "text": "\n".join([title, *lines]),
        "title": title,
        "lines": lines,
        "id": notice.id,
        "event": notice.event.value,
        "severity": notice.severity.name.lower(),
        "flow": notice.flow,
        "at": notice.at.isoformat(),
        "until": notice.until.isoformat() if notice.until else None,
    }
    options = {"timeout": TIMEOUT_SECONDS, "check_response": False, "allow_redirects": False}
    webhook = _Webhook(http_conn_id=route.connection, json=document, extra_options=options)
    webhook.notify({})
    return _answered("the webhook", webhook.status)


# -- Slack ---------------------------------------------------------------------------------------------------------


def _send_slack(route: NotificationRoute, _notice: Notice, title: str, lines: list[str]) -> Delivery:
    from airflow.providers.slack.notifications.slack import SlackNotifier  # noqa: PLC0415 (an extra)
    from slack_sdk.errors import SlackApiError  # noqa: PLC0415 (likewise)

    notifier: Any = SlackNotifier(
        slack_conn_id=route.connection,
        text="\n".join([title, *lines]),
        channel=str(route.channel),
        username="Switchback",
        timeout=TIMEOUT_SECONDS,
        retry_handlers=[],
        unfurl_links=False,
        unfurl_media=False,
    )
    try:
        notifier.notify({})
    except SlackApiError as error:
        # Slack answers 200 with `ok: false` where it refuses a message.
        code = int(getattr(error.response, "status_code", 0))
        return _answered("Slack", code if code != 200 else 400)
    return Delivery(NoticeState.SENT)


#: By kind of a route, what sends a title and lines.
SENDERS: dict[str, Callable[[NotificationRoute, Notice, str, list[str]], Delivery]] = {
    "smtp": _send_mail,
    "webhook": _send_webhook,
    "slack": _send_slack,
}
