"""An address is looked at as Kafka's clients use it: with their CAs and their own certificate, in every form."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from kafka_dr.hooks.doctor.addresses import AddressProblem, kafka_context, look_at

from lab.environment.production.certificates import LabAuthority

PASSWORD = "hunter2hunter2"
SERVERS = {"bootstrap.servers": "x:1", "security.protocol": "SSL"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> LabAuthority:
    """A CA with a server's and a client's certificate."""
    made = LabAuthority(tmp_path_factory.mktemp("ca"))
    made.issue_once("server")
    made.issue_once("client")
    return made


@contextmanager
def strict_broker(authority: LabAuthority) -> Iterator[str]:
    """A server of TLS 1.2, in whose handshake a client without certificate fails; yield its address."""
    files = authority.files_of("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version, context.verify_mode = ssl.TLSVersion.TLSv1_2, ssl.CERT_REQUIRED
    context.load_cert_chain(files.certificate, files.key)
    context.load_verify_locations(authority.certificate)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            try:
                connection, _ = server.accept()
                with context.wrap_socket(connection, server_side=True):
                    pass
            except OSError:
                pass

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(30)


def client_forms(authority: LabAuthority) -> dict[str, dict[str, str]]:
    """The client's certificate and key, in each form that a connection may have."""
    files = authority.files_of("client")
    return {
        "files": {"ssl.certificate.location": str(files.certificate), "ssl.key.location": str(files.key)},
        "text": {"ssl.certificate.pem": files.certificate.read_text(), "ssl.key.pem": files.key.read_text()},
        "key store": {
            "ssl.keystore.location": str(authority.key_store("client", PASSWORD)),
            "ssl.keystore.password": PASSWORD,
        },
    }


@pytest.mark.parametrize("form", ["files", "text", "key store"])
def test_a_broker_that_demands_a_certificate_gets_it(form: str, authority: LabAuthority) -> None:
    """Whether it stands in files, in the connection itself, or in a key store."""
    config = {**SERVERS, "ssl.ca.location": str(authority.certificate), **client_forms(authority)[form]}
    with strict_broker(authority) as address:
        state = look_at(address, kafka_context(config, "primary"), 20.0)
    assert state.problem is AddressProblem.NONE, state


def test_a_broker_that_demands_a_certificate_refuses_who_has_none(authority: LabAuthority) -> None:
    """So the server of these tests can tell."""
    config = {**SERVERS, "ssl.ca.pem": authority.certificate.read_text()}
    with strict_broker(authority) as address:
        state = look_at(address, kafka_context(config, "primary"), 20.0)
    assert state.problem in (AddressProblem.TLS, AddressProblem.CONNECTION)


@pytest.mark.parametrize("place", ["probe", "folder"])
def test_cas_of_the_machine_and_cas_in_a_folder_can_be_named(place: str, tmp_path: Any) -> None:
    """As librdkafka reads them; no certificate is said to be unreadable."""
    config = {**SERVERS, "ssl.ca.location": str(tmp_path) if place == "folder" else place}
    assert kafka_context(config, "primary") is not None
