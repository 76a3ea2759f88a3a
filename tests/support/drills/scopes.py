"""A drill's names and scope, for tests of what a drill may change."""

from __future__ import annotations

from typing import Any

from kafka_dr.domain.drill.names import DrillNames, drill_naming
from kafka_dr.domain.drill.scope import DrillScope, scope_of
from kafka_dr.domain.mirror_maker.naming import NamingSpec

DRILL_ID = "failover_drill-manual__2026-11-27"
PAIR = ("primary", "standby")
NAMES = DrillNames(DRILL_ID)
BEGIN = f"switchback-drill.{NAMES.short}"
ORDERS, READERS = NAMES.topic("orders"), NAMES.group("readers")
SOURCE, CHECKPOINT = NAMES.source_connector(*PAIR), NAMES.checkpoint_connector(*PAIR)
MIRROR = "org.apache.kafka.connect.mirror."
#: Names of production or of another drill, patterns, and parts of the drill's names.
PRODUCTIONS = (
    "orders",
    "*",
    ".*",
    "",
    BEGIN,
    f"{BEGIN}.",
    ORDERS.upper(),
    DrillNames("failover_drill-other").topic("orders"),
    "__consumer_offsets",
    "__switchback_probe",
    "__switchback_canary",
    "mm2-offset-syncs.standby.internal",
    "kafka-cluster",
)
#: All that no scope of this drill has; the last ones could be names of this drill.
FOREIGN = (
    *PRODUCTIONS,
    "mm2-offset-syncs.switchback-drill.third.switchback-drill.internal",
    f"{BEGIN}.orders",
    f"{ORDERS}.stranded",
    f"x{ORDERS}",
)


def scope(policy: Any = "identity", folder: str = "") -> DrillScope:
    """Return the scope of a drill with one topic and one group."""
    naming = drill_naming(NamingSpec(policy), PAIR)
    return scope_of(NAMES, naming, PAIR, ["orders"], ["readers"], folder)


#: The aliases of the drill's flow, as a connector has them.
ENDS = {"source.cluster.alias": PAIR[0], "target.cluster.alias": PAIR[1]}


def source_config(**changed: str) -> dict[str, str]:
    """Return the configuration of the drill's source connector, with changes."""
    off = ("heartbeats.replication.enabled", "sync.topic.acls.enabled", "sync.topic.configs.enabled")
    return {
        "connector.class": f"{MIRROR}MirrorSourceConnector",
        "topics": ORDERS.replace(".", r"\."),
        "replication.policy.separator": ".switchback-drill.",
        **ENDS,
        **dict.fromkeys(off, "false"),
        **changed,
    }


def checkpoint_config(**changed: str) -> dict[str, str]:
    """Return the configuration of the drill's checkpoint connector, with changes."""
    return {
        "connector.class": f"{MIRROR}MirrorCheckpointConnector",
        "groups": READERS.replace(".", r"\."),
        "replication.policy.separator": ".switchback-drill.",
        **ENDS,
        "sync.group.offsets.enabled": "false",
        **changed,
    }
