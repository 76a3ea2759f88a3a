"""Requests to a Connect worker that stay within a drill, and those that do not."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_dr.domain.drill.connect_requests import require_request
from kafka_dr.domain.fencing.exempt_canary import canary_config
from kafka_dr.errors import OutsideDrill

from tests.support.drills.scopes import (
    CHECKPOINT,
    MIRROR,
    NAMES,
    ORDERS,
    SOURCE,
    checkpoint_config,
    scope,
    source_config,
)

OFFSETS = {"offsets": [{"partition": {"cluster": "primary", "topic": ORDERS, "partition": 0}, "offset": None}]}
BOTH = f"{ORDERS}, {NAMES.own.canary}".replace(".", r"\.")
FOREIGN_OFFSETS = {"offsets": [*OFFSETS["offsets"], {"partition": {"topic": "orders", "partition": 0}}]}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/connectors/prod/config", None),
        ("GET", "/", None),
        ("PUT", "/connector-plugins/org.apache.kafka.connect.mirror.MirrorSourceConnector/config/validate", {}),
        ("POST", "/connectors", {"name": SOURCE, "config": source_config(), "initial_state": "STOPPED"}),
        ("PUT", f"/connectors/{SOURCE}/config", source_config(name=SOURCE)),
        (
            "PUT",
            f"/connectors/{SOURCE}/config",
            source_config(topics=f"{ORDERS}, {NAMES.own.canary}".replace(".", r"\.")),
        ),
        ("PUT", f"/connectors/{CHECKPOINT}/config", checkpoint_config()),
        ("PATCH", f"/connectors/{SOURCE}/config", {"enabled": None}),
        ("PATCH", f"/connectors/{SOURCE}/offsets", OFFSETS),
        ("PATCH", f"/connectors/{SOURCE}/offsets", {"offsets": []}),
        ("DELETE", f"/connectors/{SOURCE}/offsets", None),
        *(("PUT", f"/connectors/{SOURCE}/{verb}", None) for verb in ("stop", "pause", "resume")),
        ("DELETE", f"/connectors/{SOURCE}", None),
    ],
)
def test_what_a_drill_needs_is_let_through(method: str, path: str, body: Any) -> None:
    """Reads of everything; changes of its own connectors."""
    require_request(scope(), method, path, body)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/connectors", {"name": "prod", "config": source_config()}),
        ("POST", "/connectors", {"config": source_config()}),
        ("POST", "/connectors", {"name": SOURCE, "config": source_config(name="prod")}),
        ("PUT", "/connectors/prod/config", source_config()),
        ("PUT", "/connectors/prod/stop", None),
        ("DELETE", "/connectors/prod", None),
        ("DELETE", "/connectors/prod/offsets", None),
        ("PATCH", "/connectors/prod/offsets", {"offsets": []}),
        ("PUT", f"/connectors/{SOURCE}/../prod/stop", None),
        ("PUT", f"/connectors/{SOURCE}%2F..%2Fprod/stop", None),
        ("PUT", f"/connectors/{SOURCE}/%2e%2e/prod/stop", None),
        ("PUT", f"/connectors//{SOURCE}/stop", None),
        ("PUT", f"/connectors/{SOURCE}/stop?x=/connectors/prod", None),
        ("PUT", f"/connectors/{SOURCE}/stop\n", None),
        ("PUT", "/admin/loggers/root", {"level": "ERROR"}),
        ("PUT", f"/connectors/{SOURCE}/topics/reset", None),
        ("POST", "/connectors/prod/restart", None),
        ("PUT", "/connector-plugins/../connectors/prod/config/validate", {}),
        ("get", "/connectors/prod/stop", None),
        ("PATCH", f"/connectors/{SOURCE}/config", {"topics": ".*"}),
        ("PATCH", f"/connectors/{SOURCE}/offsets", FOREIGN_OFFSETS),
    ],
)
def test_another_connector_is_never_changed(method: str, path: str, body: Any) -> None:
    """Neither directly nor by a path or a body that leads elsewhere."""
    with pytest.raises(OutsideDrill, match=r"request|offsets"):
        require_request(scope(), method, path, body)


@pytest.mark.parametrize(
    "changed",
    [
        {"topics": ".*"},
        {"topics": ""},
        {"topics": ORDERS},
        {"topics": f"{ORDERS}|orders".replace(".", r"\.")},
        {"topics": ORDERS.replace(".", r"\.") + ",orders"},
        {"topics": ORDERS.replace(".", r"\.").replace("orders", ".*")},
        {"topics": r"\Qorders\E"},
        {"topic.filter.class": "com.example.EverythingFilter"},
        {"replication.policy.separator": "."},
        {"replication.policy.internal.topic.separator.enabled": "false"},
        {"heartbeats.replication.enabled": "true"},
        {"sync.topic.acls.enabled": "true"},
        {"sync.topic.configs.enabled": "true"},
        {"connector.class": f"{MIRROR}MirrorHeartbeatConnector"},
        {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector"},
        {"connector.class": "MirrorSourceConnector"},
        {"source.cluster.alias": "dr-primary"},
        {"target.cluster.alias": "third"},
        {"source.cluster.alias": ""},
    ],
)
def test_a_connector_of_the_drill_copies_only_the_drills_topics(changed: dict[str, str]) -> None:
    """Its name alone would not keep production's records from being copied."""
    for method, path, body in (
        ("PUT", f"/connectors/{SOURCE}/config", source_config(**changed)),
        ("POST", "/connectors", {"name": SOURCE, "config": source_config(**changed)}),
    ):
        with pytest.raises(OutsideDrill):
            require_request(scope(), method, path, body)


def test_settings_whose_defaults_are_wide_must_be_there() -> None:
    """Left out they would mean every topic, heartbeats and ACLs."""
    for key in source_config():
        config = {name: value for name, value in source_config().items() if name != key}
        with pytest.raises(OutsideDrill):
            require_request(scope(), "PUT", f"/connectors/{SOURCE}/config", config)


@pytest.mark.parametrize(
    "changed",
    [
        {"groups": ".*"},
        {"groups": "app"},
        {"groups": ORDERS.replace(".", r"\.")},
        {"sync.group.offsets.enabled": "true"},
        {"source.cluster.alias": "dr-primary"},
    ],
)
def test_a_checkpoint_connector_writes_no_groups_of_others(changed: dict[str, str]) -> None:
    """Group sync would write positions of production's groups."""
    with pytest.raises(OutsideDrill):
        require_request(scope(), "PUT", f"/connectors/{CHECKPOINT}/config", checkpoint_config(**changed))


def test_the_exempt_canary_fits_into_a_drill() -> None:
    """It is made like the drill's own source connector, and mirrors its own topic only."""
    made, own = canary_config(source_config(), NAMES.own), NAMES.own
    require_request(scope(), "PUT", f"/connectors/{own.exempt_connector}/config", made)
