"""The keys with which a lab's flight recorder and journal sign."""

from __future__ import annotations

import base64
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from lab.environment.state import write_private


def public_key_of(private_key: Path) -> str:
    """Return a key's public part as the topology names it; the private key's file is made first if it is missing."""
    if not private_key.exists():
        made = Ed25519PrivateKey.generate()
        write_private(private_key, made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
    key = load_pem_private_key(private_key.read_bytes(), None).public_key()
    return base64.b64encode(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode("ascii")
