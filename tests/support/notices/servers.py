"""A mail server and a webhook that keep what they receive, and that answer well, badly, late or never."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.support.json_server import JsonHandler, served

#: How a server treats what it has received: it says thanks, refuses it for good or for now, hangs, or hangs up.
GOOD, REFUSES, LATER, HANGS, HANGS_UP = "good", "refuses", "later", "hangs", "hangs up"


class MailServer:
    """A mail server; `mails` are those that it has received whole, whatever it answered then.

    Attributes:
        mood: how it treats the next mail.
        login: login and password that it asks for; None: it asks for none.
    """

    def __init__(self) -> None:
        self.mood, self.login = GOOD, None
        self.mails: list[Any] = []
        self.envelopes: list[Envelope] = []

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 (aiosmtpd calls it so)
        """Keep a mail, and treat it."""
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))
        self.envelopes.append(envelope)
        if self.mood == HANGS:
            await asyncio.sleep(3600)
        if self.mood == HANGS_UP:
            server.transport.close()
        return {REFUSES: "554 refused", LATER: "451 later"}.get(self.mood, "250 taken")

    def authenticate(self, _server: SMTP, _session: Session, _envelope: Envelope, _how: str, given: Any) -> AuthResult:
        """Compare a login."""
        assert isinstance(given, LoginPassword)
        return AuthResult(success=(given.login.decode(), given.password.decode()) == self.login, handled=False)

    @property
    def texts(self) -> list[str]:
        """Subject and body of each mail."""
        return [f"{mail['Subject']}\n{mail.get_body(('html', 'plain')).get_content()}" for mail in self.mails]


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def mail_server(login: tuple[str, str] | None = None) -> Iterator[tuple[MailServer, int]]:
    """Serve during the block; yield the server and its port."""
    server = MailServer()
    server.login = login
    options = {"authenticator": server.authenticate, "auth_required": True, "auth_require_tls": False} if login else {}
    controller = Controller(server, hostname="127.0.0.1", port=free_port(), **options)
    controller.start()
    try:
        yield server, controller.port
    finally:
        controller.stop()


class Webhook:
    """A webhook; `documents` are those that it has received whole, whatever it answered then."""

    def __init__(self) -> None:
        self.mood, self.documents, self.headers = GOOD, [], []
        self.done = threading.Event()

    @property
    def events(self) -> list[str]:
        """The event of each document, in the order of their arrival."""
        return [document["event"] for document in self.documents]


@contextmanager
def webhook_server() -> Iterator[tuple[Webhook, str]]:
    """Serve during the block; yield the webhook and its address."""
    hook = Webhook()

    class Handler(JsonHandler):
        """Keeps what is posted, and treats it; as Slack's API does, too."""

        def do_POST(self) -> None:  # noqa: N802 (http.server calls it so)
            hook.documents.append(json.loads(self.content()))
            hook.headers.append(dict(self.headers))
            if hook.mood == HANGS:
                hook.done.wait(3600)
            if hook.mood in (HANGS, HANGS_UP):
                self.close_connection = True
                return
            # A server that repeats what it was sent, and with it the caller's login.
            self.answer({REFUSES: 500, LATER: 503}.get(hook.mood, 200), {"ok": True, "seen": dict(self.headers)})

    with served(Handler) as url:
        try:
            yield hook, url
        finally:
            hook.done.set()
