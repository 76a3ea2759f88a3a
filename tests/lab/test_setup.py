"""What only some tests need is installed where that may be done, and nothing of an installation is changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.install import setup

CREATE = "etc/postgresql-common/createcluster.d/switchback.conf"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without PostgreSQL whose apt-get installs version 15, and notes what it was told and saw."""
    monkeypatch.setattr(setup, "POSTGRESQL", tmp_path / "lib")
    monkeypatch.setattr(setup, "CREATE_CLUSTER", tmp_path / CREATE)
    monkeypatch.delenv("SWITCHBACK_TEST_POSTGRES", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")

    def run(command: list[str], **_: object) -> None:
        with (tmp_path / "commands").open("a") as commands:
            commands.write(" ".join(command) + "\n")
        if "install" in command:
            (tmp_path / "seen").write_text((tmp_path / CREATE).read_text())
            add_programs(tmp_path, "15")

    monkeypatch.setattr("subprocess.run", run)
    return tmp_path


def add_programs(system: Path, version: str) -> None:
    """Lay out a server as Debian does."""
    folder = system / "lib" / version / "bin"
    folder.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (folder / name).touch()


def test_a_server_is_installed_without_a_cluster(system: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Debian's packages are told to make none while they are installed; nothing of that stays."""
    setup.ensure_postgresql()
    installed = "apt-get install -y --no-install-recommends postgresql"
    assert (system / "commands").read_text().splitlines() == ["apt-get update", installed]
    assert (system / "seen").read_text() == "create_main_cluster = false\n"
    assert not (system / "etc").exists()
    assert "without a cluster" in capsys.readouterr().out


def test_folders_that_were_there_stay(system: Path) -> None:
    """Only what was made is removed."""
    folder = (system / CREATE).parent
    folder.mkdir(parents=True)
    (folder.parent / "createcluster.conf").touch()
    setup.ensure_postgresql()
    assert folder.is_dir() and not any(folder.iterdir()) and (folder.parent / "createcluster.conf").exists()


def test_a_server_that_is_there_is_left_alone(system: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest is used; nothing is installed."""
    for version in ("9.6", "15", "13"):
        add_programs(system, version)
    setup.ensure_postgresql()
    assert not (system / "commands").exists() and "already there" in capsys.readouterr().out
    assert setup.postgresql_programs() == system / "lib/15/bin"


@pytest.mark.parametrize("missing", ["root", "apt-get"])
def test_where_nothing_may_be_installed_one_line_says_what_is_missing(
    system: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    """And how to give a server; that fails nothing."""
    if missing == "root":
        monkeypatch.setattr("os.geteuid", lambda: 1000)
    else:
        monkeypatch.setattr("shutil.which", lambda _: None)
    setup.ensure_postgresql()
    told = capsys.readouterr().out
    assert not (system / "commands").exists()
    assert told.count("\n") == 1 and "SWITCHBACK_TEST_POSTGRES" in told and "skipped" in told


def test_a_server_that_is_given_is_used(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed beside it."""
    monkeypatch.setenv("SWITCHBACK_TEST_POSTGRES", "postgresql://me@db/x")
    setup.ensure_postgresql()
    assert not (system / "commands").exists()


def test_an_installation_that_fails_leaves_nothing_behind(
    system: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The packages' setting goes in any case, and the last line says that there is no server."""

    def fail(command: list[str], **_: object) -> None:
        raise subprocess.CalledProcessError(100, command)

    monkeypatch.setattr("subprocess.run", fail)
    setup.ensure_postgresql()
    assert not (system / "etc").exists()
    assert "SWITCHBACK_TEST_POSTGRES" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize("present", [None, "/usr/bin/javac"])
def test_a_compiler_is_installed_unless_there_is_one(
    system: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], present: str | None
) -> None:
    """Where none is there afterwards either, the last line says how to get one."""
    monkeypatch.setattr(setup, "find_compiler", lambda: present)
    monkeypatch.setattr("sys.argv", ["setup", "jdk"])
    (system / "commands").touch()
    (system / CREATE).parent.mkdir(parents=True)
    (system / CREATE).touch()
    assert setup.main() == 0
    installed = (system / "commands").read_text()
    assert ("install -y --no-install-recommends openjdk-17-jdk-headless" in installed) is (present is None)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "jdk: already there" if present else "no Java compiler" in last and "skipped" in last


def test_an_unknown_part_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, before anything is installed."""
    monkeypatch.setattr("sys.argv", ["setup", "postgresql", "mysql"])
    with pytest.raises(SystemExit, match="postgresql and jdk .*, not mysql"):
        setup.main()
