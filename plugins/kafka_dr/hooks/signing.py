"""Ed25519 signatures: a signer, whose private key is a file of one process, and verification by public keys.

A public key is a text: the base64 form of its 32 bytes.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from collections.abc import Collection
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from kafka_dr.errors import BadInput

_MAKE_KEY = "make a key with python -m kafka_dr.commands.make_key --out FILE"


class Signer:
    """Signs with one private key.

    Attributes:
        public_key: the public key, by which the signatures are verified.
        key_id: the public key's id.
    """

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = _text_of(key.public_key())
        self.key_id = key_id(self.public_key)

    @classmethod
    def of_file(cls, path: Path) -> Signer:
        """Return the signer of a private key in a PEM file without password.

        Raises:
            BadInput: the file cannot be read, other users may read it, or it holds no Ed25519 key.
        """
        try:
            mode, content = stat.S_IMODE(path.stat().st_mode), path.read_bytes()
        except OSError as error:
            raise _unusable(
                path, f"{error.strerror}", "correct the path, or make the process's user its owner"
            ) from None
        if mode & 0o077:
            raise _unusable(path, f"other users have rights on it (mode {mode:04o})", "set its mode to 0600")
        try:
            key = serialization.load_pem_private_key(content, None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise _unusable(path, "no private key in PEM form without password", _MAKE_KEY) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise _unusable(path, "another kind of key than Ed25519", _MAKE_KEY)
        return cls(key)

    @classmethod
    def of_topology(cls, path: str | None, variable: str, public_keys: Collection[str]) -> Signer:
        """Return the signer of the private key whose public key the topology names.

        Args:
            path: value of the environment variable `variable`, which names the key's file; None if it is not set.

        Raises:
            BadInput: the variable is not set, the key cannot be used, or it belongs to none of the public keys.
        """
        if not path:
            raise BadInput(
                "there is no private key to sign with",
                f"the topology names public keys, the environment has no {variable}",
                f"set {variable}, where nothing else reads it, to the path of the private key",
            )
        signer = cls.of_file(Path(path))
        if signer.public_key not in public_keys:
            raise BadInput(
                "the private key belongs to no public key of the topology",
                f"{path}: its public key is {signer.public_key}, id {signer.key_id}, which the topology does not name",
                f"add this public key to the topology, or name another file in {variable}",
            )
        return signer

    def sign(self, content: bytes) -> str:
        """Return the signature of some bytes, as base64 text."""
        return base64.b64encode(self._key.sign(content)).decode()


def is_signed(content: bytes, signature: str, public_key: str) -> bool:
    """Whether a signature of `Signer.sign` is that of these bytes, by the private key of `public_key`."""
    try:
        Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key)).verify(base64.b64decode(signature), content)
    except (InvalidSignature, ValueError):
        return False
    return True


def key_id(public_key: str) -> str:
    """Return the id of a public key: the first 16 hexadecimal digits of the SHA-256 of its 32 bytes."""
    return hashlib.sha256(base64.b64decode(public_key)).hexdigest()[:16]


def make_key(path: Path) -> str:
    """Write a new private key to a file that only its owner can read; return the public key.

    Raises:
        BadInput: the file exists, or cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise BadInput(
            "no key was made: the file exists", str(path), "name another file; a key is never overwritten"
        ) from None
    except OSError as error:
        raise BadInput("no key was made", f"{path}: {error.strerror}", "name a file that can be written") from None
    return _text_of(key.public_key())


def _text_of(key: Ed25519PublicKey) -> str:
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return base64.b64encode(raw).decode()


def _unusable(path: Path, seen: str, next_step: str) -> BadInput:
    return BadInput("the private key cannot be used", f"{path}: {seen}", next_step)
