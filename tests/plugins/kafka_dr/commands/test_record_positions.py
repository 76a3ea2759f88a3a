"""The recorder's process: ends when told, and as a whole when one flow's recorder fails."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.commands.record_positions import open_recorder, signer_of
from kafka_dr.config.connectors import Connectors
from kafka_dr.config.topology import Flow, Recorder, Topology
from kafka_dr.errors import BadInput
from kafka_dr.hooks.signing import make_key

from tests.conftest import ROOT

#: The command with recorders of ours in the place of real ones.
PROCESS = """
import sys
from types import SimpleNamespace
from kafka_dr.commands import record_positions as command

class Recorder:
    def __init__(self, name, ended):
        self.name, self.ended = name, ended

    def run(self):
        if self.name == "broken":
            raise KeyError("of nobody")
        print("runs", flush=True)
        self.ended.wait()

command.load_topology = lambda path: SimpleNamespace(flows=sys.argv[1:])
command.open_recorder = lambda topology, flow, settings, ended: Recorder(flow, ended)
sys.exit(command.main())
"""


def started(*flows: str) -> subprocess.Popen[str]:
    """The process, told its settings; its standard input stays open."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, *flows],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PYTHONPATH": str(ROOT / "plugins"), "PATH": str(Path(sys.executable).parent)},
    )
    process.stdin.write('{"topology": "t"}\n')
    process.stdin.flush()
    return process


def output(process: subprocess.Popen[str]) -> str:
    """What it said until it ended."""
    try:
        process.wait(20)
    finally:
        process.kill()
    return process.stdout.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well(number: int) -> None:
    """Its supervisor's pipe is still open then."""
    process = started("a->b")
    assert process.stdout.readline() == "runs\n"
    process.send_signal(number)
    assert (output(process), process.returncode) == ("", 0)


def test_it_ends_with_its_parent() -> None:
    """Whose pipe closes, however it died."""
    process = started("a->b")
    assert process.stdout.readline() == "runs\n"
    process.stdin.close()
    assert (output(process), process.returncode) == ("", 0)


def test_a_recorder_that_fails_ends_all() -> None:
    """With an exit code, and with what happened: a flow must not go unrecorded while another one's recorder runs on."""
    process = started("a->b", "broken")
    told = output(process)
    assert process.returncode == 1 and "ERROR broken: its recorder failed, and all recorders end" in told
    assert "KeyError: 'of nobody'" in told


def test_it_does_not_begin_without_its_settings() -> None:
    """Named, with an exit code of its own."""
    process = started()
    process.stdin.close()
    assert process.wait(20) == 0
    command = [sys.executable, "-m", "kafka_dr.commands.record_positions"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT / "plugins")}
    ) as empty:
        assert "the recorder cannot begin" in output(empty) and empty.returncode == 2


CLUSTERS = {"east": {"bootstrap.servers": "127.0.0.1:9"}, "west": {"bootstrap.servers": "127.0.0.1:9"}}
WORKERS = {
    name: {"url": f"http://127.0.0.1:9/{name}", "user": "", "password": "", "tls": {}} for name in ("there", "back")
}


@pytest.mark.parametrize(
    ("policy", "flows", "expected"),
    [
        ("identity", "both", [("MirrorMaker('http://127.0.0.1:9/back')", ("s.back", "c"))]),
        ("default", "both", None),
        ("identity", "one", None),
        ("identity", "dedicated", []),
    ],
)
def test_the_flow_the_other_way_is_watched_where_it_writes_back(
    tmp_path: Path, policy: str, flows: str, expected: list[Any] | None
) -> None:
    """Under identity naming into the very topics that this flow reads; its worker is its own."""
    made = {
        "there": Flow(
            source="east", target="west", connect="there", connectors=Connectors(source="s.there", checkpoint="c")
        ),
        "back": Flow(
            source="west", target="east", connect="back", connectors=Connectors(source="s.back", checkpoint="c")
        ),
        "dedicated": Flow(
            source="west", target="east", stop_hook="stop", connectors=Connectors(source="s.back", checkpoint="c")
        ),
    }
    names = {"both": ("there", "back"), "one": ("there",), "dedicated": ("there", "dedicated")}[flows]
    topology = Topology(
        clusters={alias: {"connection": alias} for alias in CLUSTERS},
        naming={"policy": policy},
        flows=[made[name] for name in names],
        routing={"kind": "file", "path": "r"},
        journal={"connection": "j"},
        airflow_api={"connection": "a"},
        spark={"connection": "s"},
        evidence="e",
        recorder={"archive": f"file://{tmp_path}"},
    )
    looker = open_recorder(
        topology, topology.flows[0], {"clusters": CLUSTERS, "workers": WORKERS, "archive": {}}, threading.Event()
    )._look.__self__
    back = looker.access.flow_back
    assert (back is None) is (expected is None)
    hosts = back.connectors.workers if back and back.connectors else []
    assert [(repr(worker), names) for worker, names in hosts] == (expected or [])


def test_the_private_key_is_the_recorders_own(tmp_path: Path) -> None:
    """From a file that the environment names; one that is missing or another's is refused, and named."""
    key, other = make_key(tmp_path / "key"), make_key(tmp_path / "other")
    archive = f"file://{tmp_path}"
    assert signer_of(Recorder(archive=archive), str(tmp_path / "key")) is None
    signs = Recorder(archive=archive, public_keys=(other, key))
    assert signer_of(signs, str(tmp_path / "key")).public_key == key
    for path, told in ((None, "has no SWITCHBACK_RECORDER_KEY"), ("/none", "/none")):
        with pytest.raises(BadInput, match=told):
            signer_of(signs, path)
    with pytest.raises(BadInput, match="belongs to no public key of the topology"):
        signer_of(Recorder(archive=archive, public_keys=(other,)), str(tmp_path / "key"))


@pytest.mark.parametrize("private", ["key", "other", None])
def test_a_recorder_without_its_key_records_unsigned(
    tmp_path: Path, private: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins all the same, and knows why it does not sign."""
    key, _ = make_key(tmp_path / "key"), make_key(tmp_path / "other")
    if private:
        monkeypatch.setenv("SWITCHBACK_RECORDER_KEY", str(tmp_path / private))
    flow = Flow(source="east", target="west", connect="there", connectors=Connectors(source="s", checkpoint="c"))
    topology = Topology(
        clusters={alias: {"connection": alias} for alias in ("east", "west")},
        naming={"policy": "identity"},
        flows=[flow],
        routing={"kind": "file", "path": "r"},
        journal={"connection": "j"},
        airflow_api={"connection": "a"},
        spark={"connection": "s"},
        evidence="e",
        recorder={"archive": f"file://{tmp_path}/archive", "public_keys": [key]},
    )
    settings = {
        "clusters": CLUSTERS,
        "workers": WORKERS,
        "archive": {},
        "journal": f"sqlite:///{tmp_path}/journal.db",
    }
    made = open_recorder(topology, flow, settings, threading.Event())
    assert (made._signing is not None, made._unsigned_because is None) == (private == "key", private == "key")
