"""An S3 server on this machine, and a proxy before it that answers late or fails some requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import fsspec
from moto.server import ThreadedMotoServer

from tests.support.stores.disturbing_proxy import Disturbance, proxy_server

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


@contextmanager
def disturbed(options: dict[str, Any], disturbance: Disturbance) -> Iterator[dict[str, Any]]:
    """Run a proxy before an S3 server; yield the options with which the server is reached through it."""
    server = proxy_server(("127.0.0.1", 0), options["endpoint_url"].removeprefix("http://"), disturbance)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {**options, "endpoint_url": f"http://127.0.0.1:{server.server_address[1]}"}
    finally:
        server.shutdown()
        server.server_close()
