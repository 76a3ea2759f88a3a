"""Why a key of MirrorMaker 2's configuration is not used for a topology."""

from __future__ import annotations

import re

_NOT_NEEDED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(shape), reason)
    for shape, reason in (
        (r"enabled", "the direction is not enabled, so the topology has no such flow"),
        (
            r"(bootstrap|security|sasl|ssl)\..*",
            (
                "connection setting of one direction only; the Airflow connection is made of the cluster's own settings"
                " (the value is not shown)"
            ),
        ),
        # Must precede the tuning pattern below, which matches these keys, too.
        (
            r"(source|target)?\.?(cluster\.)?(producer|consumer|admin)\.(override\.)?(sasl|ssl|security|bootstrap)\..*",
            (
                "connection setting of MirrorMaker 2's own clients; the Airflow connection is for the orchestrator (the"
                " value is not shown)"
            ),
        ),
        (
            r"(dedicated\.mode\..*|listeners|rest\..*|admin\.listeners.*)",
            "concerns the worker's REST interface; the connection under `connect` has its address",
        ),
        (
            r"(.*\.)?(producer|consumer|admin)\..*",
            "tunes MirrorMaker 2's own clients; the setting stays in the worker and affects no step",
        ),
        (
            r"config\.providers.*",
            "config providers work only in the worker; put the values themselves into Airflow connections",
        ),
        (
            (
                r"(config|offset|status)\.storage\..*|group\.id|client\.id|offset\.flush\..*|task\.shutdown\..*|"
                r"scheduled\.rebalance\..*|plugin\..*|"
                r"connect\.protocol|worker\..*|connector\.client\..*"
            ),
            "a setting of the Connect worker; Switchback reads what it needs from the worker",
        ),
        (
            r"(transforms|predicates)(\..*)?",
            "changes records during replication; the setting stays in the connector, where check_readiness reads it",
        ),
        (r"(metric|metrics)\..*|log4j.*", "concerns metrics and logs only"),
        (
            (
                r"(checkpoints|heartbeats|offset-syncs)\.topic\..*|(retry|reconnect|retries|request|metadata|"
                r"connections)\..*|replication\.policy\..*"
            ),
            "a detail that no step depends on",
        ),
    )
)
#: The reason for a key that matches nothing.
UNKNOWN = "not a setting of MirrorMaker 2 that Switchback knows; no step depends on it"


def reason_unused(key: str) -> str:
    """Return the reason why a key without a cluster's or direction's prefix is not used."""
    if "->" in key:
        return "one cluster of the direction is not in `clusters`"
    return next((reason for shape, reason in _NOT_NEEDED if shape.fullmatch(key)), UNKNOWN)
