"""Reads the subject of the certificate with which a Java client logs in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

#: Attributes that Java writes by name, as RFC 2253 does; of all others it writes number and encoded value.
_NAMED = frozenset("2.5.4.3 2.5.4.6 2.5.4.7 2.5.4.8 2.5.4.10 2.5.4.11 2.5.4.9".split()) | {
    "0.9.2342.19200300.100.1.25",
    "0.9.2342.19200300.100.1.1",
}


def subject_of_client(java: Mapping[str, str]) -> str:
    """Return the subject as Java writes it, such as `CN=mm2,OU=kafka`; "" if the settings name no certificate.

    Args:
        java: the client's settings, by Java's keys.

    Raises:
        OSError: the key store cannot be read.
        ValueError: it is neither PEM nor PKCS#12, or its password is wrong.
    """
    certificate = _certificate(java)
    return "" if certificate is None else java_name(certificate.subject)


def java_name(name: x509.Name) -> str:
    """Return a name as Java's X500Principal.getName() does: from the most special part to the most general."""
    return ",".join("+".join(map(_attribute, part)) for part in reversed(name.rdns))


def _certificate(java: Mapping[str, str]) -> x509.Certificate | None:
    if chain := java.get("ssl.keystore.certificate.chain"):
        return x509.load_pem_x509_certificates(chain.encode())[0]
    if not (location := java.get("ssl.keystore.location")):
        return None
    content = Path(location).read_bytes()
    if java.get("ssl.keystore.type", "JKS").upper() == "PEM":
        return x509.load_pem_x509_certificates(content)[0]
    # Java also reads PKCS#12 under its default type.
    password = java.get("ssl.keystore.password", "").encode() or None
    return pkcs12.load_key_and_certificates(content, password)[1]


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    if attribute.oid.dotted_string in _NAMED:
        return attribute.rfc4514_string()
    return f"{attribute.oid.dotted_string}=#{_encoded_value(attribute).hex()}"


def _encoded_value(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """Return an attribute's value in DER: of a name with this part alone, what follows the attribute's number."""
    encoded, at = x509.Name([attribute]).public_bytes(), 0
    for _ in range(3):  # the name, its part, the pair of number and value
        at += _header(encoded, at)
    return encoded[at + _header(encoded, at) + encoded[at + 1] :]


def _header(encoded: bytes, at: int) -> int:
    """Return how many bytes tag and length of a value have."""
    length = encoded[at + 1]
    return 2 if length < 0x80 else 2 + (length & 0x7F)
