"""What a refusal for want of an approval tells the operator to do."""

from __future__ import annotations

import pytest
from kafka_dr.procedure.approvals import how_to_ask_again
from kafka_dr.procedures import GATES
from kafka_dr.vocabulary import Step

MOVES = {Step.APPROVE_FAILOVER, Step.APPROVE_DATA_LOSS, Step.REVIEW_TRANSLATION}


@pytest.mark.parametrize("gate", GATES)
def test_the_next_step_fits_the_gate(gate: Step) -> None:
    """It names the gate; only a run that moves clients returns to the source, or has opened a target."""
    told = how_to_ask_again(gate)
    assert gate in told and "second person answer" in told
    assert ("open_target is done" in told, "returns to the source" in told) == (gate in MOVES,) * 2
    assert ("Clients stay on the source" in told) == (gate is Step.DECIDE_STRANDED_RECORDS)
    assert ("then clear restore_positions" in told) == (gate is Step.APPROVE_RESTORE)


@pytest.mark.parametrize("gate", GATES)
def test_the_gate_is_cleared_alone(gate: Step) -> None:
    """Cleared with its downstream tasks a gate would take steps along that have moved clients already."""
    told = how_to_ask_again(gate)
    returns = (Step.DECIDE_STRANDED_RECORDS, Step.APPROVE_CHANGE)
    assert (f"clear {gate} alone, without its downstream tasks" in told) == (gate not in returns)
