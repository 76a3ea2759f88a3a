"""The lab's own certificate authority (CA), and the keys and certificates that it issues, in private files.

Clients read PEM files. Brokers get Java's key stores, so PKCS#12 files: before 3.0 a broker takes a PEM key only
encrypted. Connect's REST server reads no PEM file at all.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = timedelta(days=825)
#: A certificate is valid from a day before its creation, for machines whose clocks differ.
EARLIER = timedelta(days=1)
HOSTS = ("localhost",)
ADDRESSES = ("127.0.0.1",)


@dataclass(frozen=True)
class CertificateFiles:
    """The files of one key and its certificate.

    Args:
        certificate: PEM file with the certificate.
        key: PEM file with the private key in PKCS#8, unencrypted.
        both: PEM file with key and certificate, for programs that read them from one file.
    """

    certificate: Path
    key: Path
    both: Path


class LabAuthority:
    """Issues certificates, each once, in one folder; a second object for the folder continues the first one's work.

    Args:
        folder: folder of the files; created if absent.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: PEM file with the certificate of the CA, which every client trusts.
        self.certificate = folder / "ca.pem"

    def create_once(self) -> None:
        """Create the CA's key and certificate, unless they exist."""
        if self.certificate.exists():
            return
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("Switchback lab CA")
        certificate = (
            _builder(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        self._write("ca.key", _key_text(key))
        # Last: where this file exists, the key exists, too.
        self._write("ca.pem", certificate.public_bytes(Encoding.PEM))

    def issue_once(self, name: str, hosts: tuple[str, ...] = HOSTS, addresses: tuple[str, ...] = ADDRESSES) -> None:
        """Issue a certificate of the subject `CN=<name>` for servers and clients, unless it exists.

        Args:
            name: also names the files.
            hosts: host names for which the certificate is valid.
            addresses: IP addresses for which the certificate is valid.
        """
        files = self.files_of(name)
        if files.both.exists():
            return
        self.create_once()
        authority = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        signer = _load_key(self._folder / "ca.key")
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        certificate = (
            _builder(_name(name), authority.subject, key.public_key(), signer.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(signer, hashes.SHA256())
        )
        text = certificate.public_bytes(Encoding.PEM)
        self._write(files.certificate.name, text)
        self._write(files.key.name, _key_text(key))
        self._write(files.both.name, _key_text(key) + text)

    def files_of(self, name: str) -> CertificateFiles:
        """Return the paths of a subject's files, which `issue_once` writes."""
        return CertificateFiles(*(self._folder / f"{name}.{end}" for end in ("pem", "key", "both.pem")))

    def key_store(self, name: str, password: str) -> Path:
        """Return the path of a PKCS#12 file with a subject's key, certificate and CA, for Java; written once."""
        path = self._folder / f"{name}.p12"
        if path.exists():
            return path
        files = self.files_of(name)
        key = _load_key(files.key)
        own, authority = (
            x509.load_pem_x509_certificate(file.read_bytes()) for file in (files.certificate, self.certificate)
        )
        encryption = BestAvailableEncryption(password.encode())
        content = pkcs12.serialize_key_and_certificates(name.encode(), key, own, [authority], encryption)
        return self._write(path.name, content)

    def trust_store(self, password: str) -> Path:
        """Return the path of a PKCS#12 file with the CA's certificate, for Java; written once."""
        path = self._folder / "trusted.p12"
        if path.exists():
            return path
        authority = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        trusted = [pkcs12.PKCS12Certificate(authority, b"ca")]
        content = pkcs12.serialize_java_truststore(trusted, BestAvailableEncryption(password.encode()))
        return self._write(path.name, content)

    def _write(self, name: str, content: bytes) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / name
        temporary = path.with_name(f".{name}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        temporary.replace(path)
        return path


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePublicKey | None = None,
) -> x509.CertificateBuilder:
    """Return a certificate to be completed and signed; `issuer_key` is None for the CA's own."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number(), now - EARLIER, now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key or key), critical=False)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    return cast("ec.EllipticCurvePrivateKey", load_pem_private_key(path.read_bytes(), None))


def _key_text(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
