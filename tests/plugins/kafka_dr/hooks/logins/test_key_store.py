"""The subject of the certificate with which a Java client logs in, as Java writes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from kafka_dr.hooks.logins.key_store import java_name, subject_of_client

from lab.environment.production.certificates import LabAuthority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> LabAuthority:
    """A CA with a client's certificate."""
    made = LabAuthority(tmp_path_factory.mktemp("ca"))
    made.issue_once("mm2")
    return made


def test_each_form_of_key_store_is_read(authority: LabAuthority) -> None:
    """PEM in a file and in the settings, PKCS#12 under its own type and under Java's default."""
    files = authority.files_of("mm2")
    store = {"ssl.keystore.location": str(authority.key_store("mm2", "pw")), "ssl.keystore.password": "pw"}
    for settings in (
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(files.both)},
        {"ssl.keystore.certificate.chain": files.certificate.read_text()},
        {**store, "ssl.keystore.type": "pkcs12"},
        store,
    ):
        assert subject_of_client(settings) == "CN=mm2"
    assert subject_of_client({"security.protocol": "SSL"}) == ""


def test_what_cannot_be_read_is_an_error(authority: LabAuthority, tmp_path: Path) -> None:
    """A missing file, Java's own format, a wrong password."""
    java = tmp_path / "store.jks"
    java.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(OSError, match="No such file"):
        subject_of_client({"ssl.keystore.location": str(tmp_path / "missing.p12")})
    for location, password in ((java, "pw"), (authority.key_store("mm2", "pw"), "wrong")):
        with pytest.raises(ValueError):
            subject_of_client({"ssl.keystore.location": str(location), "ssl.keystore.password": password})


def test_a_name_is_written_as_java_writes_it() -> None:
    """From the most special part on, escaped; what RFC 2253 does not name, by number and encoded value."""
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Shop, Inc."),
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b"),
            x509.NameAttribute(NameOID.COMMON_NAME, "mm2"),
        ]
    )
    assert java_name(name) == r"CN=mm2,1.2.840.113549.1.9.1=#1603614062,O=Shop\, Inc.,C=DE"
