"""Requests in flight: how long each is waited for, and when the client that sent them is dropped."""

from __future__ import annotations

import time
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError
from kafka_dr.hooks.brokers.client import outcome_of
from kafka_dr.hooks.brokers.group_requests import RequestWindow, send_pipelined


class Sending:
    """Sends requests, of which some are never answered; counts how often the client was dropped."""

    def __init__(self, unanswered: str = "") -> None:
        self.unanswered, self.sent, self.dropped = unanswered, "", 0
        self.window = RequestWindow(4, self._drop)

    def _drop(self) -> None:
        self.dropped += 1

    def send(self, item: str) -> Future[str]:
        """Send a request."""
        self.sent += item
        future: Future[str] = Future()
        if item not in self.unanswered:
            future.set_result(f"answer to {item}")
        return future


def outcomes(sending: Sending, items: str, seconds: float = 0.05, ends_in: float = 60.0) -> dict[str, str]:
    """By item: the answer, or the error's name."""
    answers = send_pipelined(items, sending.send, sending.window, seconds, time.monotonic() + ends_in)
    found = {item: outcome_of(future, 0.0) for item, future in answers}
    return {item: value.name() if isinstance(value, KafkaError) else value for item, value in found.items()}


def test_answers_drop_no_client() -> None:
    """All are answered."""
    sending = Sending()
    assert outcomes(sending, "abcdef") == {item: f"answer to {item}" for item in "abcdef"} and sending.dropped == 0


@pytest.mark.parametrize(("seconds", "ends_in"), [(0.05, 60.0), (60.0, 0.05), (60.0, -1.0)])
def test_a_request_without_answer_ends_with_its_client(seconds: float, ends_in: float) -> None:
    """After its own time or that of all: no other request is sent by the client meanwhile."""
    sending = Sending(unanswered="b")
    found = outcomes(sending, "abcdef", seconds, ends_in)
    assert found == {item: f"answer to {item}" for item in "abcdef"} | {"b": "_TIMED_OUT"}
    assert (sending.sent, sending.dropped) == ("abcdef", 1)


def test_the_last_request_without_answer_ends_with_its_client() -> None:
    """Nothing is sent after it, and still the client goes."""
    sending = Sending(unanswered="c")
    assert outcomes(sending, "abc")["c"] == "_TIMED_OUT" and sending.dropped == 1


def test_who_waits_no_longer_drops_the_client() -> None:
    """An error or an interrupt: what is in flight must not be sent later."""
    sending = Sending(unanswered="abcd")
    answers = send_pipelined("abcd", sending.send, sending.window, 0.05)
    next(answers)
    answers.close()
    assert sending.sent == "abcd" and sending.dropped == 1
