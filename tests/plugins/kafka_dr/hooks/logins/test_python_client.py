"""The same login for kafka-python: what the connection says is kept, what cannot be used is refused."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from kafka_dr.errors import BadInput
from kafka_dr.hooks.logins.python_client import for_python

SERVERS = {"bootstrap.servers": "one:9093, two:9093"}
KEY = ec.generate_private_key(ec.SECP256R1())
NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "app")])
CERTIFICATE = (
    x509.CertificateBuilder()
    .subject_name(NAME)
    .issuer_name(NAME)
    .public_key(KEY.public_key())
    .serial_number(1)
    .not_valid_before(datetime.now(UTC) - timedelta(days=1))
    .not_valid_after(datetime.now(UTC) + timedelta(days=1))
    .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    .sign(KEY, hashes.SHA256())
)
CERTIFICATE_PEM = CERTIFICATE.public_bytes(Encoding.PEM).decode()


def key_pem(password: bytes | None = None) -> str:
    """Return the key as PEM, encrypted with a password if one is given."""
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()


def test_a_login_by_password_is_kept() -> None:
    """Protocol in any case, both spellings of the mechanism; without TLS no context."""
    login = {"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "orchestrator", "sasl.password": "p:w"}
    settings = for_python({**SERVERS, "security.protocol": "sasl_plaintext", **login}, "east")
    assert settings == {
        "bootstrap_servers": ["one:9093", "two:9093"],
        "client_id": "switchback",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "orchestrator",
        "sasl_plain_password": "p:w",
    }


@pytest.mark.parametrize("form", ["text", "files", "encrypted key", "key store"])
def test_a_client_certificate_is_used(form: str, tmp_path: Path) -> None:
    """Only a certificate with its key can be loaded: each form of the connection leads to a context."""
    keystore = pkcs12.serialize_key_and_certificates(b"app", KEY, CERTIFICATE, None, BestAvailableEncryption(b"secret"))
    for name, content in (("c.pem", CERTIFICATE_PEM), ("k.pem", key_pem())):
        (tmp_path / name).write_text(content)
    (tmp_path / "store.p12").write_bytes(keystore)
    own = {
        "text": {"ssl.certificate.pem": CERTIFICATE_PEM, "ssl.key.pem": key_pem()},
        "files": {"ssl.certificate.location": str(tmp_path / "c.pem"), "ssl.key.location": str(tmp_path / "k.pem")},
        "encrypted key": {
            "ssl.certificate.pem": CERTIFICATE_PEM,
            "ssl.key.pem": key_pem(b"secret"),
            "ssl.key.password": "secret",
        },
        "key store": {"ssl.keystore.location": str(tmp_path / "store.p12"), "ssl.keystore.password": "secret"},
    }[form]
    config = {**SERVERS, "security.protocol": "ssl", "ssl.ca.pem": CERTIFICATE_PEM, **own}
    context = for_python(config, "east")["ssl_context"]
    assert context.check_hostname and context.verify_mode == ssl.CERT_REQUIRED
    assert context.cert_store_stats()["x509_ca"] == 1


def test_a_host_name_that_librdkafka_does_not_check_is_not_checked() -> None:
    """The connection's own choice; the certificate is verified all the same."""
    config = {**SERVERS, "security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "none"}
    context = for_python(config, "east")["ssl_context"]
    assert not context.check_hostname and context.verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    "wrong",
    [
        {"ssl.ca.location": "/no/such/file"},
        {"ssl.ca.pem": "no certificate"},
        {"ssl.certificate.pem": CERTIFICATE_PEM, "ssl.key.pem": key_pem(b"secret"), "ssl.key.password": "hunter2"},
        {"ssl.keystore.location": __file__, "ssl.keystore.password": "hunter2"},
    ],
)
def test_certificates_that_cannot_be_used_are_refused_by_name(wrong: dict[str, str]) -> None:
    """Cluster and reason are named, no secret."""
    with pytest.raises(BadInput, match="certificates of the Kafka connection of east") as refusal:
        for_python({**SERVERS, "security.protocol": "ssl", **wrong}, "east")
    assert "hunter2" not in str(refusal.value)
