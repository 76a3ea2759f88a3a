"""A proxy before an S3 server that answers late and fails some requests; it needs Python's standard library alone.

`python disturbing_proxy.py PORT UPSTREAM_PORT SECONDS SHARE` runs it on every address of a container until it is ended.
"""

from __future__ import annotations

import random
import sys
import time
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Disturbance:
    """What a proxy does to requests.

    Attributes:
        failing: share of the requests that are answered with 503.
        seconds: how long each answer waits.
        refused: methods of the requests that are answered with 403.
        requests: how many requests came.
        failed: how many of them were answered with 503.
    """

    def __init__(self, failing: float = 0.0, seconds: float = 0.0, refused: tuple[str, ...] = ()) -> None:
        self.failing, self.seconds, self.refused, self.requests, self.failed = failing, seconds, refused, 0, 0
        self.random = random.Random(7)


def proxy_server(address: tuple[str, int], upstream: str, disturbance: Disturbance) -> ThreadingHTTPServer:
    """Return a server that passes requests on to `upstream`, HOST:PORT; it serves once it is told to."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            """Answer one request."""
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            disturbance.requests += 1
            time.sleep(disturbance.seconds)
            status = 403 if self.command in disturbance.refused else 503
            if status == 403 or disturbance.random.random() < disturbance.failing:
                disturbance.failed += 1
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            connection = HTTPConnection(upstream, timeout=30)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (name of http.server)
            """Log nothing."""

    return ThreadingHTTPServer(address, Handler)


def main(port: str, upstream_port: str, seconds: str, share: str) -> None:
    """Serve until the process is ended; print every minute how many requests came and failed."""
    disturbance = Disturbance(float(share), float(seconds))
    server = proxy_server(("0.0.0.0", int(port)), f"127.0.0.1:{upstream_port}", disturbance)
    server.service_actions = _tell(disturbance)  # type: ignore[method-assign]
    server.serve_forever()


def _tell(disturbance: Disturbance) -> Any:
    told_at = [time.monotonic()]

    def tell() -> None:
        if time.monotonic() > told_at[0] + 60:
            told_at[0] = time.monotonic()
            print(f"{disturbance.failed} of {disturbance.requests} requests were failed", flush=True)

    return tell


if __name__ == "__main__":
    main(*sys.argv[1:])
