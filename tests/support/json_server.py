"""Small servers that answer with JSON, over HTTP and over HTTPS."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from lab.environment.production.certificates import CertificateFiles, LabAuthority


class JsonHandler(BaseHTTPRequestHandler):
    """Reads a request's body and answers with JSON; logs nothing."""

    def content(self) -> bytes:
        """Return the request's body."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, document: Any) -> None:
        """Send a JSON document."""
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def served(handler: type[BaseHTTPRequestHandler], port: int = 0) -> Iterator[str]:
    """Serve during the block; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Greeting(JsonHandler):
    """Answers each request with the name in the client's certificate."""

    def do_GET(self) -> None:
        """Answer with the name."""
        certificate = self.connection.getpeercert() or {}
        self.answer(200, {"client": [value for (((_, value),),) in [certificate.get("subject", ((("", ""),),))]]})


@contextmanager
def served_over_tls(
    files: CertificateFiles,
    clients_of: LabAuthority | None = None,
    handler: type[BaseHTTPRequestHandler] = Greeting,
) -> Iterator[str]:
    """Serve during the block with a certificate; yield the address.

    Args:
        clients_of: only clients with a certificate of this CA are answered; None: all clients.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    if clients_of:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients_of.certificate)

    class Server(ThreadingHTTPServer):
        """Shakes hands in the thread of each request; clients that refuse the certificate are no error."""

        daemon_threads = True

        def finish_request(self, request, client_address):
            try:
                with context.wrap_socket(request, server_side=True) as wrapped:
                    super().finish_request(wrapped, client_address)
            except OSError:
                return

    server = Server(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
