"""Until when certificates are valid: those in PEM files, and those that a TLS server shows."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID

from kafka_dr.errors import BadInput

_SECONDS = 3.0


def end_of_pem(pem: bytes, name: str) -> float:
    """Return the end of the first certificate in PEM text, in seconds since 1970.

    Args:
        name: what the certificate is for, for errors.

    Raises:
        BadInput: the text holds no certificate.
    """
    try:
        return x509.load_pem_x509_certificates(pem)[0].not_valid_after_utc.timestamp()
    except ValueError:
        raise _unreadable(name, "it is no PEM text with a certificate") from None


def authorities_in(pem: bytes) -> dict[str, str]:
    """Return the certificates in PEM text: SHA-256 in hexadecimal -> subject; {} if the text holds none."""
    try:
        certificates = x509.load_pem_x509_certificates(pem)
    except ValueError:
        return {}
    return {one.fingerprint(hashes.SHA256()).hex(): one.subject.rfc4514_string() for one in certificates}


def read_pem(path: str, name: str) -> bytes:
    """Return the content of a PEM file; raise BadInput if the file cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(name, f"{path}: {error.strerror}") from None


def end_of_server(address: str, seconds: float = _SECONDS) -> float | None:
    """Return when the certificate that a TLS server shows ends, in seconds since 1970; None if none is shown.

    The certificate is only read and not verified, because an ended one is what is looked for.

    Args:
        address: such as `broker-1:9093`.
    """
    shown = _shown_certificate(address, None, seconds)
    return None if shown is None else shown.not_valid_after_utc.timestamp()


def names_of_server(address: str, asked: str, seconds: float = _SECONDS) -> tuple[str, ...] | None:
    """Return the DNS names in the certificate that a TLS server shows; None if none is shown.

    As clients do, take the subject's common name if the certificate has no alternative names.

    Args:
        address: such as `broker-1:9093`.
        asked: name of the server that the client states (SNI).
    """
    shown = _shown_certificate(address, asked, seconds)
    if shown is None:
        return None
    try:
        names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return tuple(str(one.value) for one in shown.subject.get_attributes_for_oid(NameOID.COMMON_NAME))
    return tuple(names.get_values_for_type(x509.DNSName))


def _shown_certificate(address: str, asked: str | None, seconds: float) -> x509.Certificate | None:
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), seconds) as plain,
            context.wrap_socket(plain, server_hostname=asked or host) as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
    except (OSError, ValueError):
        return None
    return x509.load_der_x509_certificate(shown) if shown else None


def _unreadable(name: str, why: str) -> BadInput:
    return BadInput(
        f"The certificate of {name} cannot be read",
        why,
        "Correct the path in the connection's extra, or let the user who runs Airflow's tasks read the file.",
    )
