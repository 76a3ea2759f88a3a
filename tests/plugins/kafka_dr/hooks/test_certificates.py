"""Until when a certificate is valid, of a file and of a server, whether or not the server takes this client."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from cryptography import x509
from kafka_dr.errors import BadInput
from kafka_dr.hooks.certificates import end_of_pem, end_of_server, names_of_server, read_pem

from lab.environment.production.certificates import LabAuthority
from tests.support.json_server import served_over_tls


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> LabAuthority:
    """A CA with a server's certificate."""
    made = LabAuthority(tmp_path_factory.mktemp("ca"))
    made.issue_once("server")
    return made


def ends(file: Path) -> float:
    """The end that a certificate states."""
    return x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc.timestamp()


def test_the_end_of_a_file_and_of_a_server_is_the_certificates(authority: LabAuthority) -> None:
    """Also of a server that wants a certificate of its clients."""
    file = authority.files_of("server").certificate
    assert end_of_pem(read_pem(str(file), "x"), "x") == ends(file)
    for clients_of in (None, authority):
        with served_over_tls(authority.files_of("server"), clients_of=clients_of) as url:
            assert end_of_server(url.removeprefix("https://")) == ends(file)


def test_the_names_of_a_server_are_those_of_its_certificate(authority: LabAuthority) -> None:
    """Whatever name is asked for."""
    file = authority.files_of("server").certificate
    stated = x509.load_pem_x509_certificate(file.read_bytes()).extensions
    names = stated.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    with served_over_tls(authority.files_of("server")) as url:
        assert names and names_of_server(url.removeprefix("https://"), "kafka.example.com") == tuple(names)
    assert names_of_server("127.0.0.1:9", "kafka.example.com", 0.2) is None


def test_what_shows_no_certificate_has_no_end() -> None:
    """Nobody listens, nobody answers, or the address is none."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert end_of_server(address, 0.2) is None
        silent.listen()
        assert end_of_server(address, 0.2) is None
    assert end_of_server("nowhere", 0.2) is None


def test_a_file_without_a_certificate_is_named(tmp_path: Path) -> None:
    """Missing, or something else."""
    with pytest.raises(BadInput, match="The certificate of east CA cannot be read"):
        read_pem(str(tmp_path / "missing.pem"), "east CA")
    with pytest.raises(BadInput, match="no PEM text"):
        end_of_pem(b"hello", "east CA")
