"""How long a drill waits for people, and after which silence it counts as given up."""

from __future__ import annotations

from datetime import timedelta

from kafka_dr.domain.drill.verdict import FULL

#: How long sign_off_drill stays open: owners of findings are rarely all there on the day of a drill.
SIGN_OFF_WAIT = timedelta(days=7)
#: How long a full drill waits for each move that people make, once its notice time is over.
MOVE_WAIT = timedelta(days=7)
_MARGIN = timedelta(days=1)


def longest_silence(kind: str, notice_hours: float, approval_wait_seconds: float) -> timedelta:
    """Return how old the newest journal entry of a drill may be; a drill that is silent for longer is given up.

    While a drill waits for people it writes nothing: 8 days for observe and canary; for full its notice time and 15
    days, or a day more than announce_drill waits, if that is longer.

    Args:
        kind: observe, canary or full.
        notice_hours: of the flow's objectives.
        approval_wait_seconds: how long announce_drill waits.
    """
    if kind != FULL:
        return SIGN_OFF_WAIT + _MARGIN
    moves = timedelta(hours=notice_hours) + MOVE_WAIT + SIGN_OFF_WAIT
    return max(moves, timedelta(seconds=approval_wait_seconds)) + _MARGIN
