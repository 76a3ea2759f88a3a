"""The key with which the flight recorder of a lab signs its samples."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from lab.environment.state import Lab, write_private


def recorder_public_key(lab: Lab) -> str:
    """Return the public key as the topology names it; the private key is made first if the lab has none."""
    if not lab.recorder_key.exists():
        made = Ed25519PrivateKey.generate()
        write_private(
            lab.recorder_key, made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
        )
    key = load_pem_private_key(lab.recorder_key.read_bytes(), None).public_key()
    return base64.b64encode(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode("ascii")
