"""The message of a failure, in sentences."""

from __future__ import annotations

from kafka_dr.domain.evidence.failures import failure_text


def test_a_message_has_the_parts_that_are_known() -> None:
    """Each part ends with one full stop; parts that are empty or absent are left out."""
    whole = {"reason": "no answer", "seen": "a timeout.", "next_step": "Wait"}
    assert failure_text(whole) == "no answer. Seen: a timeout. Next: Wait."
    assert failure_text({"reason": "no answer", "seen": ""}) == "no answer."
