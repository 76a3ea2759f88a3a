"""An S3 server on this machine, and a proxy before it that answers late or fails some requests."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import fsspec
from moto.server import ThreadedMotoServer

BUCKET = "archive"
SECRET = "hunter2"


@contextmanager
def object_store() -> Iterator[dict[str, Any]]:
    """Run an S3 server with a bucket; yield the options with which it is reached."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "endpoint_url": f"http://{host}:{port}",
        "key": "archive",
        "secret": SECRET,
        "client_kwargs": {"region_name": "eu-central-1"},
    }
    # All servers of one process share their buckets.
    fsspec.filesystem("s3", **options).makedirs(BUCKET, exist_ok=True)
    try:
        yield options
    finally:
        server.stop()


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


@contextmanager
def disturbed(options: dict[str, Any], disturbance: Disturbance) -> Iterator[dict[str, Any]]:
    """Run a proxy before an S3 server; yield the options with which the server is reached through it."""
    upstream = options["endpoint_url"].removeprefix("http://")

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

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {**options, "endpoint_url": f"http://127.0.0.1:{server.server_address[1]}"}
    finally:
        server.shutdown()
        server.server_close()
