"""The command `switchback`: every command answers --help, refuses misuse with 2, and is what `python -m` runs."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kafka_dr import __version__, installation
from kafka_dr.commands import install_dags
from kafka_dr.commands.command_line import COMMANDS
from kafka_dr.commands.install_dags import dag_file
from kafka_dr.commands.switchback import main

NAMES = sorted(COMMANDS)


@pytest.mark.parametrize("name", NAMES)
def test_help_is_fine(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The usage, and exit code 0."""
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert "usage: " in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_misuse(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, a sentence on stderr, nothing on stdout."""
    with pytest.raises(SystemExit) as ended:
        main([name, "--no-such-option"])
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert "usage: " in printed.err and not printed.out


@pytest.mark.parametrize("name", NAMES)
def test_usage_names_the_command_as_it_was_called(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`switchback plan`, or `python -m kafka_dr.commands.plan`, which goes on working."""
    module = importlib.import_module(f"kafka_dr.commands.{COMMANDS[name].module}")
    for program, usage in (
        ("/usr/bin/switchback", f"usage: switchback {name} "),
        (module.__file__, f"usage: python -m {module.__name__} "),
    ):
        monkeypatch.setattr(sys, "argv", [program])
        with pytest.raises(SystemExit):
            module.main(["--help"])
        assert capsys.readouterr().out.startswith(usage)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        (["no-such-command"], 2),
        (["plan", "--json", "--commands", "p"], 2),
        (["--help"], 0),
        (["--version"], 0),
    ],
)
def test_without_a_command(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Help and version are fine, everything else is misuse."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == code
    assert bool(capsys.readouterr().out) is (code == 0)


def test_help_lists_every_command_with_the_exit_codes() -> None:
    """A person finds all commands at one place; no Kafka client is loaded for it."""
    program = (
        "import sys; from kafka_dr.commands.switchback import main\n"
        "try: main(['--help'])\nfinally: assert 'pandas' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert all(f"  {name} " in done.stdout for name in NAMES)
    assert "2 nothing was done" in done.stdout


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with two DAGs; returns the folder into which they are installed."""
    dags = tmp_path / "packaged" / "dags"
    dags.mkdir(parents=True)
    for name in ("failback.py", "planned_failover.py"):
        (dags / name).touch()
    monkeypatch.setattr(installation, "_PACKAGED", tmp_path / "packaged")
    return tmp_path / "airflow" / "dags"


def installed(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
    """Run the command and return its JSON."""
    assert main(["install-dags", str(folder), "--json"]) == 0
    document: dict[str, list[str]] = json.loads(capsys.readouterr().out)
    return document


def test_dags_are_written_once(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second run finds everything as it should be."""
    assert installed(wheel, capsys)["written"] == ["failback.py", "planned_failover.py"]
    before = {path: path.stat().st_mtime_ns for path in wheel.iterdir()}
    again = installed(wheel, capsys)
    assert (again["written"], again["unchanged"]) == ([], ["failback.py", "planned_failover.py"])
    assert before == {path: path.stat().st_mtime_ns for path in wheel.iterdir()}
    assert "from kafka_dr.packaged.dags.failback import dag" in (wheel / "failback.py").read_text()


def test_an_upgrade_replaces_and_removes(
    wheel: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of an older version are replaced, those of a DAG that went are removed, a stranger's DAG stays."""
    with monkeypatch.context() as older:
        older.setattr(install_dags, "__version__", "0.0.9")
        installed(wheel, capsys)
        (wheel / "went.py").write_text(dag_file("went"))
    (wheel / "orders.py").write_text("a DAG of somebody else")
    done = installed(wheel, capsys)
    assert done["replaced"] == ["failback.py", "planned_failover.py"] and done["removed"] == ["went.py"]
    assert sorted(path.name for path in wheel.iterdir()) == ["failback.py", "orders.py", "planned_failover.py"]
    assert f"version {__version__}," in (wheel / "failback.py").read_text()


def test_dags_are_removed_again(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What somebody has changed is left and named; a stranger's DAG stays; the second run has nothing to do."""
    installed(wheel, capsys)
    (wheel / "orders.py").write_text("a DAG of somebody else")
    (wheel / "failback.py").write_text(f"{dag_file('failback')}# changed\n")
    for removed in (["planned_failover.py"], []):
        assert main(["install-dags", str(wheel), "--remove", "--json"]) == 0
        done = json.loads(capsys.readouterr().out)
        assert (done["removed"], done["left"]) == (removed, ["failback.py"])
    assert sorted(path.name for path in wheel.iterdir()) == ["failback.py", "orders.py"]


@pytest.mark.parametrize("text", ["a DAG of somebody else", dag_file("failback") + "# changed\n"])
def test_a_file_of_somebody_else_is_left_alone(text: str, wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused by name before anything is written."""
    wheel.mkdir(parents=True)
    (wheel / "failback.py").write_text(text)
    assert main(["install-dags", str(wheel), "--json"]) == 2
    printed = capsys.readouterr()
    assert "failback.py" in printed.err and not printed.out
    assert [(path.name, path.read_text()) for path in wheel.iterdir()] == [("failback.py", text)]


def test_a_checkout_has_no_dags_to_install(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There Airflow reads the folder itself."""
    assert main(["install-dags", str(tmp_path / "dags")]) == 2
    assert "DAG files of a checkout" in capsys.readouterr().err
    assert not (tmp_path / "dags").exists()
