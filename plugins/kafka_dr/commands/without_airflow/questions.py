"""Asks a gate's question on the terminal; sends the answer to the command's Airflow, under the answerer's login."""

from __future__ import annotations

from collections.abc import Callable

from kafka_dr.commands.without_airflow.accounts import Account
from kafka_dr.commands.without_airflow.requested_run import RequestedRun
from kafka_dr.commands.without_airflow.terminal import Terminal
from kafka_dr.errors import Refusal, SystemUnavailable
from kafka_dr.hooks.airflow_api import AirflowApi, TaskInstance


class GateAsker:
    """Asks a gate's question each time the gate is tried; the gate itself decides whether an answer is valid."""

    def __init__(self, terminal: Terminal, api: AirflowApi, url: str, run: RequestedRun) -> None:
        """Store terminal, API and run; nothing is asked yet.

        Args:
            url: address of the API of the command's Airflow, for the logins of the persons who answer.
        """
        self._terminal, self._api, self._url, self._run = terminal, api, url, (run.dag_id, run.run_id)
        self._shown: set[tuple[str, int]] = set()

    def ask(self, gate: TaskInstance, still_waits: Callable[[], bool]) -> None:
        """Ask until an answer is accepted, the gate no longer waits, or the terminal's input has ended.

        Args:
            still_waits: called repeatedly while no answer comes; returns False once the gate no longer waits.
        """
        if self._terminal.ended:
            return
        options = self._show(gate)
        while options and still_waits() and not self._terminal.ended:
            if self._asked_once(gate.task_id, options, still_waits):
                return

    def _show(self, gate: TaskInstance) -> tuple[str, ...]:
        detail = self._api.hitl(*self._run, gate.task_id)
        if detail is None:
            return ()
        if (gate.task_id, gate.try_number) not in self._shown:
            self._shown.add((gate.task_id, gate.try_number))
            self._terminal.write(
                f"\n{gate.task_id}: {detail.subject}\n\n{detail.body}\n\nA second person answers. (In a browser on this"
                f" machine: {self._url}/required_actions)\n"
            )
        return detail.options

    def _asked_once(self, gate: str, options: tuple[str, ...], still_waits: Callable[[], bool]) -> bool:
        user = self._terminal.ask("User name of the person who answers: ", still_waits)
        password = self._terminal.ask(f"Password of {user}: ", still_waits, secret=True) if user else None
        if not user or password is None:
            return False
        try:
            account = Account(self._url, user, password)
            option = self._choice(options, still_waits)
            if option is None:
                return False
            accepted = account.answer(*self._run, gate, option)
        except (Refusal, SystemUnavailable) as error:
            self._terminal.say(str(error))
            return False
        self._terminal.say(
            f"{gate}: {user} answered {option}" if accepted else f"{gate}: another person has just answered"
        )
        return True

    def _choice(self, options: tuple[str, ...], still_waits: Callable[[], bool]) -> str | None:
        """Return the option that a person typed in full; None if the gate no longer waits, or input has ended.

        Args:
            still_waits: called repeatedly while no answer comes; returns False once the gate no longer waits.
        """
        while True:
            given = self._terminal.ask(f"Choice ({' or '.join(options)}): ", still_waits)
            if given is None:
                return None
            option_given = next((option for option in options if option.lower() == given.lower()), None)
            if option_given is not None:
                return option_given
            self._terminal.say(f"{given!a} is not one of the choices")
