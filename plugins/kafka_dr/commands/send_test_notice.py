"""Sends a test notice on one route of the topology's `notifications`, and says what became of it.

python -m kafka_dr.commands.send_test_notice --route N
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from kafka_dr.commands.command_line import command_parser
from kafka_dr.config.settings import load_topology
from kafka_dr.domain.notices.notice import Event, Notice
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.journal.notices import NoticeState

#: The module that imports Airflow: imported late, because Airflow reads the environment when it is first imported.
_CHANNELS = "kafka_dr.steps.always_on.channels"


def main(arguments: Sequence[str] | None = None) -> int:
    """Send it; return 0 if the server took it, 1 if not, 2 if nothing was begun."""
    parser = command_parser("send_test_notice", __doc__)
    parser.add_argument("--route", metavar="N", type=int, required=True, help="1 is the first route of the topology")
    number = parser.parse_args(arguments).route
    try:
        routes = load_topology().notifications
    except SwitchbackError as error:
        print(f"nothing was begun: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    if not 1 <= number <= len(routes):
        print(f"nothing was begun: the topology has {len(routes)} routes, and no route {number}", file=sys.stderr)
        return 2
    # With this value Airflow reads connections as a server does, not from its API as a task does.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    now, route = datetime.now(UTC), routes[number - 1]
    lines = ("This is a test. Nothing happened, and nothing is left to do.",)
    notice = Notice(f"test/{now.isoformat()}", Event.TEST, "", now, f"route {number}", lines)
    delivery = importlib.import_module(_CHANNELS).deliver_notice(route, notice, now)
    print(f"route {number} ({route}): {delivery.state}{f': {delivery.detail}' if delivery.detail else ''}")
    return 0 if delivery.state == NoticeState.SENT else 1


if __name__ == "__main__":
    sys.exit(main())
