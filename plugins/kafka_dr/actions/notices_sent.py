"""What became of the notices about a procedure, as its evidence states it."""

from __future__ import annotations

from typing import Any

from kafka_dr.procedure.run import Run


def notices_about(procedure: Run) -> list[dict[str, Any]]:
    """Return what has become of each notice about a procedure, on each route, the oldest first.

    A route is named by its kind and its connection; neither recipients nor what a server answered stands here.
    """
    return [
        {
            "event": record.notice.rpartition("/")[2],
            "about": record.notice.removeprefix(f"{procedure.id}/").rpartition("/")[0],
            "route": " by connection ".join(record.route.split(" ")[:2]),
            "state": record.state.value,
            "at": record.at.isoformat(),
            "tries": record.tries,
            "why": record.detail,
        }
        for record in procedure.journal.notices(about=procedure.id)
    ]
