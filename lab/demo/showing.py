"""Print the demo's output, readable in a terminal and in a plain log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

from rich.console import Console
from rich.markdown import Markdown
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from urllib3.exceptions import HTTPError

from lab.checker import CheckResult
from lab.environment.airflow_api import AirflowClient
from lab.errors import LabError

POLL_SECONDS = 1.0
ENDING_SECONDS = 10.0
LOG_WIDTH = 140


def make_console() -> Console:
    """Return a console for the standard output; without a terminal it has a fixed width and no colours."""
    return (
        Console(highlight=False)
        if sys.stdout.isatty()
        else Console(highlight=False, width=LOG_WIDTH, force_terminal=False)
    )


class Stages:
    """Prints the demo's stages, each with the seconds since the start of the demo, and lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started_at = time.monotonic()

    def begin(self, title: str) -> None:
        """Print the start of a stage."""
        self._console.print(
            Rule(f"{title}  ({time.monotonic() - self._started_at:.0f} s)", align="left", characters="-")
        )

    def say(self, text: str) -> None:
        """Print one line under the current stage."""
        self._console.print(text, markup=False, soft_wrap=True)


class GateWatcher:
    """Prints, while its block runs, the text of each new gate of a DAG and, with `ask`, how to answer the gate."""

    def __init__(self, airflow: Mapping[str, Any], dag_id: str, console: Console, ask: bool) -> None:
        self._airflow, self._console, self._ask = airflow, console, ask
        self._api = AirflowClient(airflow["url"], "approver", airflow["users"]["approver"]["password"])
        self._dag_id = dag_id
        self._shown_gates: set[tuple[str, str]] = set()
        self._since = datetime.now(UTC)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(ENDING_SECONDS)

    @property
    def shown(self) -> int:
        """Number of gates printed so far."""
        return len(self._shown_gates)

    def _watch(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            try:
                self._show_new()
            except (LabError, HTTPError) as error:
                self._console.print(f"gates cannot be read: {type(error).__name__}", markup=False)

    def _show_new(self) -> None:
        for gate in self._api.gates(self._dag_id):
            task = gate["task_instance"]
            is_new = datetime.fromisoformat(gate["created_at"]) >= self._since
            if is_new and (task["task_id"], gate["created_at"]) not in self._shown_gates:
                self._shown_gates.add((task["task_id"], gate["created_at"]))
                self._show(gate, task)

    def _show(self, gate: Mapping[str, Any], task: Mapping[str, Any]) -> None:
        self._console.print(Rule(f"gate {task['task_id']}: {gate['subject']}", align="left"))
        self._console.print(Markdown(gate["body"] or "(no text)"))
        if self._ask and not gate.get("response_received"):
            self._console.print(how_to_answer(self._airflow, task), markup=False, soft_wrap=True)


def how_to_answer(airflow: Mapping[str, Any], task: Mapping[str, Any]) -> str:
    """Return a text on how a person answers a gate: page, users and passwords.

    Args:
        airflow: the field `airflow` of the lab's status document.
        task: the gate's task instance, as Airflow's API returns it.
    """
    page = f"{airflow['url']}/dags/{task['dag_id']}/runs/{task['dag_run_id']}/tasks/{task['task_id']}/required_actions"
    people = "\n".join(
        f"  {name:<10} password {user['password']}  role {user['role']}" for name, user in airflow["users"].items()
    )
    return (
        f"This gate waits for a person. Open {page}\nand sign in as a user other than operator, who started the"
        f" run:\n{people}"
    )


def evidence_tables(evidence: Mapping[str, Any]) -> list[Table]:
    """Return two tables of an evidence document: positions by translation class, and seconds by step."""
    classes = _table("Positions by translation class", ["class", "positions"])
    for name, count in evidence.get("classes", {}).items():
        classes.add_row(name, str(count))
    rereads, seconds = evidence.get("rereads", {}), evidence.get("seconds", {})
    classes.add_row("re-reads, at most for one position", str(rereads.get("bound")))
    classes.add_row("re-reads by MirrorMaker 2's checkpoints", str(rereads.get("mirror_maker")))
    steps = _table("Time by step", ["step", "state", "seconds"])
    for step in evidence.get("steps", []):
        steps.add_row(str(step.get("id")), str(step.get("state")), _duration(step))
    for name in ("own", "drain", "people"):
        steps.add_row(
            f"in all: {name}", "", f"{seconds[name]:.1f}" if isinstance(seconds.get(name), int | float) else "?"
        )
    return [classes, steps]


def loss_table(evidence: Mapping[str, Any], limit: int = 12) -> Table:
    """Return a table of the evidence's loss rows by partition (at most `limit`), with the approved totals."""
    inventory = (evidence.get("plan") or {}).get("inventory", {})
    table = _table("Loss, by source offsets", ["partition", "lost from", "certainly up to", "possibly up to"])
    rows = sorted(
        evidence.get("loss", []),
        key=lambda row: (
            row["from_offset"] - (row["certain_to"] or row["from_offset"]),
            row["topic"],
            row["partition"],
        ),
    )
    for row in rows[:limit]:
        certain, possible = (
            _offset(row[name], otherwise) for name, otherwise in (("certain_to", "none"), ("possible_to", "no bound"))
        )
        table.add_row(f"{row['topic']}-{row['partition']}", str(row["from_offset"]), certain, possible)
    if len(rows) > limit:
        table.add_row(f"and {len(rows) - limit} more", "", "", "")
    for name in ("certain", "possible", "records_per_second"):
        table.add_row(f"in all: {name.replace('_', ' ')}", "", "", _offset(inventory.get(name), "unknown"))
    return table


def rereads_table(evidence: Mapping[str, Any], limit: int = 12) -> Table:
    """Return a table of re-reads by group (at most `limit` groups): Switchback's bound, and MirrorMaker 2's count.

    MirrorMaker 2's count is the records that the group would re-read if it started from MirrorMaker 2's checkpoints.
    """
    figures: dict[str, Any] = next(
        (step.get("figures", {}) for step in evidence.get("steps", []) if step.get("id") == "translate_offsets"), {}
    )
    table = _table(
        "Records read again, all partitions of a group",
        ["group", "at most, by Switchback", "by MirrorMaker 2's checkpoints"],
    )
    for row in figures.get("rereads_by_group", [])[:limit]:
        table.add_row(Text(str(row["group"])), _offset(row["bound"], "no bound"), str(row["mirror_maker"]))
    table.add_row(
        "largest for one position",
        _offset(figures.get("bound"), "no bound"),
        _offset(figures.get("mirror_maker_bound"), "no checkpoint"),
    )
    table.add_row("positions without a checkpoint", "", str(figures.get("mirror_maker_missing")))
    return table


def _offset(value: float | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value:.10g}"


def verdict_table(verdict: CheckResult) -> Table:
    """Return a table of a check's figures and of its number of findings."""
    table = _table("What the check observed on the clusters", ["figure", "count"])
    for name, count in verdict.figures.items():
        table.add_row(name.replace("_", " "), f"{count:,}")
    table.add_row("findings", str(len(verdict.findings)))
    return table


def _table(title: str, columns: list[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number and column != "state" else "left")
    return table


def _duration(step: Mapping[str, Any]) -> str:
    if not step.get("started_at") or not step.get("ended_at"):
        return "-"
    return (
        f"{(datetime.fromisoformat(step['ended_at']) - datetime.fromisoformat(step['started_at'])).total_seconds():.1f}"
    )
