"""The lab's CA: private files, made once, valid for this machine, and good for Java and OpenSSL."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from lab.environment.production.certificates import LabAuthority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> LabAuthority:
    """A CA that has issued one certificate."""
    made = LabAuthority(tmp_path_factory.mktemp("ca") / "certificates")
    made.issue_once("broker-primary-1")
    return made


def _contents(authority: LabAuthority) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in authority.certificate.parent.iterdir()}


def test_all_files_are_private(authority: LabAuthority) -> None:
    """Nobody else reads a key; nobody else lists the folder."""
    authority.key_store("broker-primary-1", "password")
    authority.trust_store("password")
    folder = authority.certificate.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()} == dict.fromkeys(
        ("ca.key", "ca.pem", "broker-primary-1.key", "broker-primary-1.pem", "broker-primary-1.both.pem",
         "broker-primary-1.p12", "trusted.p12"), "0o600",
    )  # fmt: skip


def test_a_second_look_changes_nothing(authority: LabAuthority) -> None:
    """`up` on a lab that runs must not give a broker another certificate than its clients trust."""
    before = _contents(authority)
    again = LabAuthority(authority.certificate.parent)
    again.create_once()
    again.issue_once("broker-primary-1")
    assert _contents(authority) == before


def test_a_certificate_is_for_this_machine_only(authority: LabAuthority) -> None:
    """By the rules that strict clients apply: for its hosts and addresses, as server, issued by this CA."""
    own = x509.load_pem_x509_certificate(authority.files_of("broker-primary-1").certificate.read_bytes())
    store = Store([x509.load_pem_x509_certificate(authority.certificate.read_bytes())])
    for host in ("localhost", "elsewhere.example"):
        verifier = PolicyBuilder().store(store).build_server_verifier(x509.DNSName(host))
        if host == "localhost":
            assert verifier.verify(own, [])[0] == own
        else:
            with pytest.raises(VerificationError):
                verifier.verify(own, [])
    uses = own.extensions.get_extension_for_oid(ExtensionOID.EXTENDED_KEY_USAGE).value
    assert set(uses) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert own.subject.rfc4514_string() == "CN=broker-primary-1"


def test_java_reads_the_stores(authority: LabAuthority) -> None:
    """Key, certificate and CA stand in the key store; without the password nothing is read."""
    path = authority.key_store("broker-primary-1", "password")
    store = pkcs12.load_pkcs12(path.read_bytes(), b"password")
    assert store.cert.certificate.subject.rfc4514_string() == "CN=broker-primary-1"
    assert [one.certificate.subject.rfc4514_string() for one in store.additional_certs] == ["CN=Switchback lab CA"]
    with pytest.raises(ValueError):
        pkcs12.load_pkcs12(path.read_bytes(), b"another")


def test_two_labs_trust_nothing_of_each_other(authority: LabAuthority, tmp_path: Path) -> None:
    """Each has a CA of its own."""
    other = LabAuthority(tmp_path / "other")
    other.create_once()
    own = x509.load_pem_x509_certificate(authority.files_of("broker-primary-1").certificate.read_bytes())
    store = Store([x509.load_pem_x509_certificate(other.certificate.read_bytes())])
    with pytest.raises(VerificationError):
        PolicyBuilder().store(store).build_server_verifier(x509.DNSName("localhost")).verify(own, [])
