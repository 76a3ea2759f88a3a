"""The jars are checked against a manifest, and the set-up scripts are what they say."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import pytest

from lab.install import jars, setup


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two jars and the manifest that lists them."""
    names = ["kafka/a-1.jar", "spark/b-2.jar"]
    for name in names:
        (tmp_path / "jars" / name).parent.mkdir(parents=True)
        (tmp_path / "jars" / name).write_bytes(name.encode())
    lines = [f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n" for name in names]
    (tmp_path / "manifest").write_text("".join(lines))
    monkeypatch.setattr(jars, "MANIFEST", tmp_path / "manifest")
    return tmp_path / "jars"


def test_listed_jars_pass(folder: Path) -> None:
    """Exactly the listed jars with the listed contents are right."""
    assert jars.wrong_jars(folder) == []


def test_a_missing_changed_or_foreign_jar_is_named(folder: Path) -> None:
    """Each kind of difference is found and named."""
    (folder / "kafka/a-1.jar").unlink()
    (folder / "spark/b-2.jar").write_bytes(b"other")
    (folder / "spark/c-3.jar").write_bytes(b"foreign")
    assert jars.wrong_jars(folder) == ["kafka/a-1.jar", "spark/b-2.jar", "spark/c-3.jar"]


def test_the_manifest_covers_both_configurations() -> None:
    """The committed manifest lists the broker, MirrorMaker 2 and Spark's connector."""
    names = set(jars.jar_digests())
    assert {
        "kafka/kafka_2.13-4.3.1.jar",
        "kafka/connect-mirror-4.3.1.jar",
        "spark/spark-sql-kafka-0-10_2.13-4.2.0.jar",
    } <= names


def test_the_cache_follows_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jars' folder is per user, outside the checkout, and another one for another list."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = jars.jars_folder()
    assert first.is_relative_to(tmp_path)
    (tmp_path / "ivy.xml").write_text("<other/>")
    monkeypatch.setattr(jars, "INSTALL", tmp_path)
    assert jars.jars_folder() != first


def test_an_interrupted_installation_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the stamp of this very lock, packages are installed again, compiled, and the stamp comes last."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(
        "#!/bin/sh\necho $@ >> " + str(tmp_path / "calls") + "\n[ ! -e " + str(tmp_path / "broken") + " ]\n"
    )
    python.chmod(0o755)
    (tmp_path / "lock").write_text("a==1\n")
    (tmp_path / "build").write_text("uv==1\n")
    (tmp_path / "broken").touch()
    python.with_name("uv").symlink_to(python)
    for name, value in (
        ("PROJECT", tmp_path),
        ("VENV", tmp_path / "venv"),
        ("LOCK", tmp_path / "lock"),
        ("BUILD_LOCK", tmp_path / "build"),
        ("STAMP", tmp_path / "stamp"),
    ):
        monkeypatch.setattr(setup, name, value)
    monkeypatch.setattr(setup, "_python_works", lambda: True)
    with pytest.raises(SystemExit):
        setup.ensure_packages()
    assert not (tmp_path / "stamp").exists()
    (tmp_path / "broken").unlink()
    setup.ensure_packages()
    setup.ensure_packages()
    calls = [line.split()[:3] for line in (tmp_path / "calls").read_text().splitlines()]
    pip, index = ["-m", "pip", "install"], ["-m", "pip", "config"]
    assert calls == [pip, pip, index, ["--system-certs", "pip", "install"], ["-m", "compileall", "-q"]]


def test_the_lock_is_complete() -> None:
    """Every package of the lock is pinned with hashes, and PySpark has one version."""
    lock = setup.LOCK.read_text()
    pins = re.findall(r"^([a-z0-9._-]+)(?:\[.*\])?==(\S+)", lock, re.MULTILINE)
    assert len(pins) > 50
    assert len(re.findall(r"==\S+.*\\\n\s+--hash=sha256:", lock)) == len(pins)
    versions = dict(pins)
    assert versions["pyspark"] == versions["pyspark-client"]


def test_make_help_lists_every_target() -> None:
    """No target is hidden."""
    text = (jars.PROJECT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert targets
    told = subprocess.run(["make", "help"], cwd=jars.PROJECT, capture_output=True, text=True, check=True).stdout
    assert set(targets.group(1).split()) == set(re.findall(r"make (\S+)", told))


def test_continuous_integration_calls_make_test() -> None:
    """What runs on a server is what runs on a desk."""
    script = jars.PROJECT / ".ci" / "run"
    assert "make test" in script.read_text()
    assert script.stat().st_mode & 0o100
