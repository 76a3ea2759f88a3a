"""What the command says when it ends before it has followed the run: whether a step of the run may have run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_dr.commands.without_airflow import conductor
from kafka_dr.commands.without_airflow.private_airflow import PROCESS_CONTEXT
from kafka_dr.commands.without_airflow.requested_run import new_run
from kafka_dr.errors import BadInput, HookUnavailable, KafkaUnavailable, SystemUnavailable

CONF = {"source": "primary", "target": "standby", "reason": "r"}


def raising(error: BaseException) -> Callable[..., Any]:
    """Return a function that raises the error."""

    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


def nothing(*_: object, **__: object) -> None:
    """Do nothing."""


class Scene:
    """One call of the command, with an Airflow, an account and a terminal that only remember."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch, self.printed = folder, monkeypatch, list[str]()
        self.airflow = SimpleNamespace(wait_until_ready=nothing, must_live=nothing, stop=nothing)
        self.account = SimpleNamespace(username="alice", trigger=nothing, pause=nothing, clear_failed=nothing)
        self.api = SimpleNamespace(
            dag_run=raising(HookUnavailable("Airflow's API is silent")), task_instances=raising(HookUnavailable("-"))
        )
        self.procedure: Any = None
        self.terminal = SimpleNamespace(
            say=self.printed.append, write=self.printed.append, ask=lambda *_: "word", ended=True
        )

    def run(self, conf: dict[str, Any] | None = CONF, **options: Any) -> tuple[int, str]:
        """Return the exit code and all that was printed."""
        fakes = {
            "Terminal": lambda *_: self.terminal,
            "redirect_output": nothing,
            "point_to": nothing,
            "exported_connections": nothing,
            "_one_command_only": nothing,
            "PrivateAirflow": lambda *_: self.airflow,
            "Account": lambda *_: self.account,
            "AirflowApi": lambda *_: self.api,
            "Journal": lambda _: SimpleNamespace(entries=lambda *_, **__: []),
            "Connections": lambda: SimpleNamespace(
                journal_url=lambda _: "", api_login=lambda _: ("http://x", "user", "secret")
            ),
            "_SILENT_SECONDS": 0.0,
            "_LOOK_SECONDS": 0.0,
        }
        for name, fake in fakes.items():
            self._patch.setattr(conductor, name, fake)
        self._patch.setattr(conductor.Conductor, "_refuse_without_users", nothing)
        self._patch.setattr(conductor.Conductor, "_observed_procedure", lambda _: self.procedure)
        self._patch.setenv(PROCESS_CONTEXT, "client")
        given = {"dag_id": "planned_failover", "user": "alice", "anyway": True, "own_database": None, "resume": None}
        code = conductor.conduct_run(SimpleNamespace(**given | options), conf, self.folder)  # type: ignore[arg-type]
        return code, "\n".join(self.printed)


@pytest.fixture
def scene(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A command whose topology can be read."""
    return Scene(tmp_path, monkeypatch)


def test_before_the_trigger_nothing_was_begun(scene: Scene) -> None:
    """An Airflow that does not start, a refused param, and Ctrl-C at the password have changed nothing."""
    scene.airflow.wait_until_ready = raising(HookUnavailable("the command's Airflow has ended"))
    assert scene.run()[0] == 2 and "nothing was begun: HookUnavailable" in scene.printed[-1]
    scene.airflow.wait_until_ready, scene.account.trigger = nothing, raising(BadInput("no such param"))
    assert scene.run()[0] == 2 and "nothing was begun: BadInput" in scene.printed[-1]
    scene.terminal.ask = raising(KeyboardInterrupt())
    assert scene.run() == (130, "\n".join(scene.printed)) and scene.printed[-1] == "stopped before any step began"


@pytest.mark.parametrize("error", [HookUnavailable("no answer within 30 s"), KeyboardInterrupt()])
def test_an_unanswered_trigger_may_have_begun_the_run(scene: Scene, error: BaseException) -> None:
    """Airflow may have created the run: the command says how to continue, and not that nothing was begun."""
    scene.account.trigger = raising(error)
    code, printed = scene.run()
    assert code == (130 if isinstance(error, KeyboardInterrupt) else 1)
    assert "nothing was begun" not in printed and "before any step" not in printed
    assert "run_procedure --resume command__" in printed and " --as alice" in printed


def test_after_the_trigger_the_run_may_have_steps(scene: Scene) -> None:
    """The folder of the run cannot be read, or Airflow answers no more: both are no word about the steps."""
    code, printed = scene.run()
    assert code == 1 and "The command stops: Airflow's API is silent" in printed
    assert "Continue with: python -m kafka_dr.commands.run_procedure --resume" in printed
    assert "nothing was begun" not in printed and "FENCED" not in printed


def test_a_run_in_the_folders_database_continues_before_the_login(
    scene: Scene, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its scheduler runs while the command asks for the password; with a fence, clients may be fenced."""
    scene.procedure = bench.stopped()
    run = new_run("planned_failover", CONF)
    monkeypatch.setattr(conductor, "begun_run", lambda *_: run)
    monkeypatch.setattr(conductor, "has_run", lambda _: True)
    scene.terminal.ask = raising(KeyboardInterrupt())
    code, printed = scene.run(None, resume=run.run_id, user=None)
    assert code == 130 and "before any step" not in printed and "CLIENTS MAY BE FENCED" in printed
    assert f"--resume {run.run_id} --as USER" in printed


def test_a_journal_that_cannot_be_read_hides_no_fence(scene: Scene) -> None:
    """Whether clients are fenced is then unknown, and the command says that they may be."""
    unreadable = raising(SystemUnavailable("the journal is not readable"))
    scene.procedure = SimpleNamespace(progress=SimpleNamespace(fence_deadline=unreadable, began=unreadable))
    scene.account.trigger = raising(KafkaUnavailable("-"))
    code, printed = scene.run()
    assert code == 1 and "CLIENTS MAY BE FENCED" in printed and "nothing was begun" not in printed
