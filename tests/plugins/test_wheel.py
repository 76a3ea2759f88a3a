"""The wheel: what is in it, and what Airflow finds in it once it is unpacked beside the other packages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the contents of the wheel that this checkout gives."""
    dist, folder = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("site-packages")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(dist)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(dist.glob("switchback-*.whl"))) as wheel:
        wheel.extractall(folder)
    return folder


def files_below(folder: Path, *endings: str) -> set[str]:
    """Paths of the source files below a folder."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.suffix in endings and "__pycache__" not in path.parts
    }


def run_in(folder: Path, program: str) -> object:
    """Run a program that has only the unpacked wheel, and the packages of this environment; return what it printed."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW__CORE", "KAFKA_DR"))
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment | {"PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_it_holds_the_product_and_nothing_else(unpacked: Path) -> None:
    """Package, plugin, DAGs and Spark jobs whole; no test, lab or cache."""
    parts = {path.name for path in unpacked.iterdir() if not path.name.endswith(".dist-info")}
    assert parts == {"kafka_dr", "switchback_plugin.py"}
    packaged = unpacked / "kafka_dr" / "packaged"
    assert {path.name for path in packaged.iterdir()} == {"dags", "spark"}
    for packed, source in ((packaged / "dags", ROOT / "dags"), (packaged / "spark", ROOT / "spark")):
        assert files_below(packed, ".py", ".json") == files_below(source, ".py", ".json")
    templates = files_below(ROOT / "plugins/kafka_dr", ".py", ".j2")
    assert templates == {
        path for path in files_below(unpacked / "kafka_dr", ".py", ".j2") if not path.startswith("packaged/")
    }
    everything = [path.as_posix() for path in unpacked.rglob("*")]
    assert not [path for path in everything if "__pycache__" in path or path.endswith(".pyc")]


def test_its_parts_are_looked_for_in_the_package(unpacked: Path) -> None:
    """Jobs and DAG files are those of the wheel, and no folder of the wheel gets onto PYTHONPATH."""
    program = (
        "import json, kafka_dr.installation as i;"
        "print(json.dumps([str(i.dags_folder()), str(i.spark_folder()), i.is_wheel(), i.python_path()]))"
    )
    packaged = unpacked / "kafka_dr/packaged"
    assert run_in(unpacked, program) == [str(packaged / "dags"), str(packaged / "spark"), True, str(unpacked)]


def test_airflow_finds_plugin_and_connection_types(unpacked: Path) -> None:
    """By entry points alone: the provider is valid, its forms have their fields, secret ones are marked."""
    program = """if True:
        import json
        from importlib.metadata import entry_points
        from airflow.providers_manager import ProvidersManager
        manager = ProvidersManager()
        widgets = {name: widget.is_sensitive for name, widget in manager.connection_form_widgets.items()}
        plugins = [found.value for found in entry_points(group="airflow.plugins") if found.name == "switchback"]
        titles = {name: hook.hook_name for name, hook in manager.hooks.items() if hook and "switchback" in name}
        print(json.dumps([widgets, plugins, titles, manager.field_behaviours["switchback_dns"]]))
    """
    widgets, plugins, titles, dns = run_in(unpacked, program)
    assert plugins == ["switchback_plugin:SwitchbackPlugin"]
    assert set(titles) == {"switchback_kafka", "switchback_http", "switchback_dns"}
    assert widgets["extra__switchback_kafka__sasl.password"] and widgets["extra__switchback_http__token"]
    assert widgets["extra__switchback_kafka__bootstrap.servers"] is False
    assert dns["relabeling"]["password"] == "Secret of the key, in base64"


def test_the_bundle_is_the_packaged_dags(unpacked: Path) -> None:
    """Airflow can read the DAG files without a copy."""
    program = (
        "import json; from kafka_dr.dag_bundle import SwitchbackDagBundle as B;"
        "print(json.dumps(str(B(name='switchback').path)))"
    )
    assert run_in(unpacked, program) == str(unpacked / "kafka_dr/packaged/dags")


@pytest.mark.parametrize("minor", ["3.1", "3.2", "3.3"])
def test_a_lock_has_the_minor_version_and_every_direct_dependency(minor: str) -> None:
    """Of the wheel and of its extras, each pinned with its hashes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name for name in project["optional-dependencies"] if name not in ("lab", "dev")}
    wanted = [*project["dependencies"], *(one for name in extras for one in project["optional-dependencies"][name])]
    lock = (ROOT / f"requirements-airflow-{minor}.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([a-z0-9-]+)(?:\[[a-z]+\])?==([^ ;]+)", lock, flags=re.MULTILINE))
    assert pinned["apache-airflow"].startswith(f"{minor}.")
    assert {re.split(r"[^A-Za-z0-9-]", one)[0].lower() for one in wanted} <= set(pinned)
    assert lock.count("--hash=sha256:") >= len(pinned)
