"""Keys and signatures: what a key file must be like, and that a signature holds for its content alone."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.commands.make_key import main
from kafka_dr.config.settings import check_topology
from kafka_dr.errors import BadInput
from kafka_dr.hooks.signing import Signer, is_signed, key_id, make_key

from tests.plugins.kafka_dr.test_journal_fixtures import topology
from tests.support.examples import examples


def test_a_key_is_made_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only its owner can read it, its public key is printed as the topology takes it, and it is never overwritten."""
    path = tmp_path / "key.pem"
    assert main(["--out", str(path)]) == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    told, signer = capsys.readouterr().out, Signer.of_file(path)
    assert f"public_keys: [{signer.public_key}]" in told and signer.key_id == key_id(signer.public_key)
    before = path.read_bytes()
    assert main(["--out", str(path)]) == 2 and "never overwritten" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert main(["--out", str(tmp_path / "none" / "key.pem")]) == 2


def other_kind() -> bytes:
    """A private key of another kind."""
    formats = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return generate_private_key(SECP256R1()).private_bytes(*formats)


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [
        (None, 0o640, "mode 0640"),
        (None, 0o604, "mode 0604"),
        (b"", 0o600, "no private key in PEM form"),
        (other_kind(), 0o600, "another kind of key"),
    ],
)
def test_a_file_that_is_no_private_key_of_ours_is_refused(
    tmp_path: Path, content: bytes | None, mode: int, told: str
) -> None:
    """Readable by others, empty, or of another kind."""
    path = tmp_path / "key.pem"
    make_key(path)
    path.write_bytes(path.read_bytes() if content is None else content)
    path.chmod(mode)
    with pytest.raises(BadInput) as refused:
        Signer.of_file(path)
    assert told in str(refused.value) and "BEGIN" not in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """Named by its path."""
    with pytest.raises(BadInput, match=r"key\.pem"):
        Signer.of_file(tmp_path / "key.pem")


@examples(100)
@given(st.binary(max_size=50), st.integers(0, 511))
def test_a_signature_holds_for_its_content_alone(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, bit: int
) -> None:
    """One bit of content or signature changed, or another key: it does not hold."""
    path = tmp_path_factory.mktemp("keys")
    make_key(path / "one"), make_key(path / "two")
    signer, other = Signer.of_file(path / "one"), Signer.of_file(path / "two")
    signature = signer.sign(content)
    assert is_signed(content, signature, signer.public_key)
    assert not is_signed(content + b"\0", signature, signer.public_key)
    assert not is_signed(content, signature, other.public_key)
    assert not is_signed(content, signature[: bit % 88], signer.public_key)
    for nonsense in ("", "?", "é" * 88, "A" * 88):
        assert not is_signed(content, nonsense, signer.public_key)


def recorder(*keys: str) -> tuple[str, ...]:
    """The keys of a topology that names these."""
    archive = {"archive": "file:///archive", "public_keys": list(keys)}
    return check_topology(topology() | {"recorder": archive}, "test").recorder.public_keys


def test_a_public_key_stands_in_the_topology_in_two_forms(tmp_path: Path) -> None:
    """As make_key prints it, and as the line of a PEM file that openssl writes; other texts are refused."""
    path = tmp_path / "key.pem"
    key = make_key(path)
    command = ["openssl", "pkey", "-in", str(path), "-pubout"]
    line = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1]
    assert recorder() == () and recorder(key) == recorder(line) == (key,)
    for wrong in ("", key[:-1], key + "=", "x" * 44, f"MCowBQYDK2VuAyEA{key}"):
        with pytest.raises(BadInput, match="Ed25519 public key"):
            recorder(wrong)
