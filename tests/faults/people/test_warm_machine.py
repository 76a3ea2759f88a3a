"""A machine on the standby site proves itself beside the site's Airflow, and fails over once that one is lost."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.entries import ProcedureClosed, ProcedureOpened, facts_of

from lab.environment.airflow_api import AirflowClient
from lab.environment.airflow_settings import COMPONENTS, airflow_connections, database_path
from lab.environment.progress import wait_until
from lab.environment.state import Lab
from lab.install.spark_warm_up import spark_environment
from lab.rehearsal.run import run_dag
from lab.rehearsal.unplanned import Accident, LostSourceRehearsal
from tests.faults.support.on_a_terminal import ROOT, OnTerminal
from tests.support.rehearsals import kept_if_it_fails

PROVE = ROOT / "runbooks" / "examples" / "warm_machine" / "prove.sh"
CONF = {"source": "primary", "target": "standby", "reason": "the primary site is lost", "confirm_seconds": 6}
SECONDS = 900.0
ASKED_OR_ENDED = "User name of the person who answers: |outcome="


class WarmMachine:
    """Settings and files of the machine's own; of the lab's files it uses only the journal and the archive."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder, self.own = lab, folder, folder / "own"
        (self.own / "connections").mkdir(parents=True, mode=0o700)
        self.own.chmod(0o700)
        passwords = lab.load().passwords
        users = {name: passwords[f"airflow_{name}"] for name in ("operator", "approver", "switchback")}
        self._write(self.own / "users.json", json.dumps(users))
        self._write(self.own / "connections" / "all.json", json.dumps(airflow_connections(lab)))
        settings = yaml.safe_load(lab.topology.read_text()) | {"evidence": str(folder / "evidence")}
        self._write(folder / "topology.yaml", yaml.safe_dump(settings))
        (folder / "bin").mkdir()
        command = folder / "bin" / "switchback"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafka_dr.commands.switchback "$@"\n')
        command.chmod(0o755)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o600)

    @property
    def environment(self) -> dict[str, str]:
        """What an EnvironmentFile of the machine has: nothing of the site's Airflow."""
        return {
            "PATH": f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "plugins"),
            "AIRFLOW_HOME": str(self.folder / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "KAFKA_DR_TOPOLOGY": str(self.folder / "topology.yaml"),
            "KAFKA_DR_SPARK_HOME": str(ROOT / "spark"),
            "SWITCHBACK_JOURNAL_KEY": str(self.lab.journal_key),
            **spark_environment(),
            **{name: os.environ[name] for name in ("HOME", "JAVA_HOME", "TMPDIR", "LANG") if name in os.environ},
        }

    def prove(self) -> subprocess.CompletedProcess[str]:
        """Run the example that the page names, as systemd would."""
        argv = [str(PROVE), str(self.own), "operator", "primary", "standby"]
        return subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=SECONDS, check=False)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the old source."""
        argv = ["switchback", "watch", "--own-database", str(self.own)]
        with (self.folder / "watch.log").open("w") as log:
            process = subprocess.Popen(argv, env=self.environment, stdout=log, stderr=log, start_new_session=True)
            try:
                yield
            finally:
                process.terminate()
                process.wait(60)

    def accept_journal(self) -> subprocess.CompletedProcess[str]:
        """Accept the journal as it is, with the connections exported as the page says."""
        export = {
            f"AIRFLOW_CONN_{name.upper()}": json.dumps(stored) for name, stored in airflow_connections(self.lab).items()
        }
        argv = ["switchback", "accept-journal", "--source", "primary", "--target", "standby", "--as", "operator"]
        return subprocess.run(
            [*argv, "--reason", "the journal was lost with the primary site"],
            env=self.environment | export, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip

    def refused(self) -> tuple[int, str]:
        """Start an unplanned failover that ends before any gate; the exit code and all that was shown."""
        with self._starting() as terminal:
            code, _ = terminal.finish(SECONDS)
            return code, terminal.seen

    def fail_over(self) -> tuple[int, str]:
        """Start an unplanned failover on a terminal, and approve what is asked; the exit code and the last line."""
        with self._starting() as terminal:
            while not terminal.wait_for(r"User name of the person who answers: |outcome=", SECONDS).endswith(
                "outcome="
            ):
                terminal.type("approver")
                terminal.answer("Password of approver: ", self.lab.load().passwords["airflow_approver"])
                terminal.answer("Choice .*: ", "approve")
            return terminal.finish(SECONDS)

    @contextmanager
    def _starting(self) -> Iterator[OnTerminal]:
        argv = ["switchback", "run", "unplanned_failover", "--as", "operator", "--own-database", str(self.own)]
        with OnTerminal([*argv, "--conf", json.dumps(CONF)], self.environment) as terminal:
            terminal.answer("Password of operator: ", self.lab.load().passwords["airflow_operator"], SECONDS)
            yield terminal


def lose_airflow(lab: Lab) -> None:
    """Kill the site's Airflow with -9, and lose its database, its settings, and the evidence."""
    for name in COMPONENTS:
        os.killpg(lab.processes.pid(f"airflow-{name}"), 9)
    for path in (lab.airflow_home, lab.evidence):
        shutil.rmtree(path, ignore_errors=True)
    assert not database_path(lab).exists()


def readiness_findings(lab: Lab) -> set[str]:
    """Check the flow in the site's Airflow; return the ids of the findings."""
    document = lab.evidence / "readiness" / "primary-to-standby.json"
    before = document.stat().st_mtime_ns if document.exists() else 0
    AirflowClient.of(lab, "operator").trigger("readiness_check", {"source": "primary", "target": "standby"})
    wait_until(lambda: document.exists() and document.stat().st_mtime_ns != before, "the readiness check", 300.0)
    return {finding["id"] for finding in json.loads(document.read_text())["findings"]}


def await_warm_machine(lab: Lab) -> None:
    """Name this machine in the site's topology: the next check reads it."""
    settings: dict[str, Any] = yaml.safe_load(lab.topology.read_text())
    settings["flows"][0]["readiness"] = {"warm_machine": {"machine": socket.gethostname()}}
    lab.topology.write_text(yaml.safe_dump(settings, sort_keys=False))


def test_the_standby_machine_fails_over_without_airflow(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """It proves itself, which readiness sees; then the site and its Airflow are lost, and it moves the clients."""
    made = LostSourceRehearsal(fresh_lab("identity"), tmp_path / "rehearsal", 3307, 500, scale=0.05, groups=6)
    lab = made.lab
    machine = WarmMachine(lab, tmp_path / "machine")
    with kept_if_it_fails(lab.root, tmp_path):
        made.seed_topics()
        await_warm_machine(lab)
        assert "warm_machine_unproven" in readiness_findings(lab)
        proof = machine.prove()
        assert proof.returncode == 0, proof.stdout + proof.stderr
        assert "outcome=completed" in proof.stdout
        assert not [word for word in lab.load().passwords.values() if word in proof.stdout + proof.stderr]
        assert "warm_machine_unproven" not in readiness_findings(lab)
        made.start_clients()
        made.lose_source(Accident(after=2.0))
        lose_airflow(lab)
        moved_by(machine, made)
    assert outcomes(lab) == {"reconcile_clusters": "completed", "unplanned_failover": "completed"}


def test_a_journal_lost_with_its_site_is_begun_anew(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Journal and samples are lost, too: the anchors of an earlier run refuse an empty one until it is accepted."""
    made = LostSourceRehearsal(
        fresh_lab("identity"), tmp_path / "rehearsal", 3308, 500, scale=0.05, groups=6, recorded=False
    )
    lab = made.lab
    machine = WarmMachine(lab, tmp_path / "machine")
    with kept_if_it_fails(lab.root, tmp_path):
        made.seed_topics()
        # The journal of a pair without any run has nothing to lose, and nothing that was anchored.
        backwards = {"source": "standby", "target": "primary", "reason": "a run that is refused"}
        assert run_dag(lab, "planned_failover", backwards, timeout=300) == 1
        assert machine.prove().returncode == 0
        made.start_clients()
        made.lose_source(Accident(after=2.0))
        lose_airflow(lab)
        for path in lab.journal.parent.glob(f"{lab.journal.name}*"):
            path.unlink()
        shutil.rmtree(lab.archive)
        code, last = machine.refused()
        assert code == 1 and "The journal is not the one that was anchored" in last, last
        accepted = machine.accept_journal()
        assert accepted.returncode == 0, accepted.stdout + accepted.stderr
        moved_by(machine, made)


def moved_by(machine: WarmMachine, made: LostSourceRehearsal) -> None:
    """The machine moves the clients, and the check by record ids finds nothing."""
    with machine.watching():
        code, last = machine.fail_over()
        assert code == 0 and last.startswith("outcome=completed failing_step=- "), last
        assert made.settle() == []
    made.stop()
    runs = sorted((machine.folder / "evidence").glob("unplanned_failover-*/evidence.json"), key=os.path.getmtime)
    evidence = json.loads(runs[-1].read_text())
    # The site's evidence is lost; the check reads the machine's.
    shutil.copytree(machine.folder / "evidence", made.lab.evidence, dirs_exist_ok=True)
    verdict = made.check(evidence, "approver")
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert verdict.figures["positions"] > 0
    assert {approval["by"] for approval in evidence["approvals"]} == {"approver"}


def outcomes(lab: Lab) -> dict[str, str]:
    """How each procedure in the journal ended, by DAG."""
    entries = Journal(f"sqlite:///{lab.journal}").entries()
    closed = {entry.procedure_id: fact.outcome for entry, fact in facts_of(entries, ProcedureClosed)}
    return {fact.dag_id: closed[entry.procedure_id] for entry, fact in facts_of(entries, ProcedureOpened)}
