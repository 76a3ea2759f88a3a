"""Configurations of a drill's connectors: production's logins, the drill's own names, nothing beyond."""

from __future__ import annotations

import pytest
from kafka_dr.domain.drill.connect_requests import require_request
from kafka_dr.domain.drill.connectors import drill_config, without_source
from kafka_dr.domain.drill.names import DrillNames, drill_naming
from kafka_dr.domain.drill.scope import scope_of
from kafka_dr.domain.mirror_maker.naming import NamingSpec
from kafka_dr.domain.mirror_maker.patterns import group_filter_of, topic_filter_of
from kafka_dr.errors import OutsideDrill

NAMES = DrillNames("failover_drill-r1")
ALIASES = ("primary", "standby")
NAMING = drill_naming(NamingSpec("identity"), ALIASES)
TOPICS, GROUPS = [NAMES.topic("orders"), NAMES.topic("payments")], [NAMES.group("active")]
PRODUCTION = {
    "name": "primary-to-standby-source",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "topics": ".*",
    "topics.exclude": r"__.*,.*\.replica",
    "source.cluster.bootstrap.servers": "a:9092",
    "source.cluster.sasl.jaas.config": "${file:/secrets:login}",
    "sync.topic.acls.enabled": "true",
    "enabled": "false",
    "transforms": "route",
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "offsets.storage.topic": "production-offsets",
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
}


def test_a_drills_connector_selects_the_drills_names_alone() -> None:
    """As MirrorMaker 2 itself reads the lists."""
    config = drill_config(PRODUCTION, TOPICS, GROUPS, ALIASES)
    mirrors, checkpoints = topic_filter_of(config, NAMING, "standby", "4.3.1"), group_filter_of(config)
    others = ["orders", "switchback-drill.0000000000.orders.replica", TOPICS[0].replace(".", "x"), "__consumer_offsets"]
    assert all(mirrors.selects(topic) for topic in TOPICS)
    assert not any(mirrors.selects(topic) for topic in others)
    assert checkpoints.selects(GROUPS[0]) and not checkpoints.selects("billing")


def test_logins_are_taken_over_and_second_writers_are_not() -> None:
    """ACL sync, settings sync, group sync and heartbeats would reach beyond the drill."""
    config = drill_config(PRODUCTION, TOPICS, GROUPS, ALIASES)
    assert config["source.cluster.sasl.jaas.config"] == PRODUCTION["source.cluster.sasl.jaas.config"]
    assert not {"name", "transforms", "transforms.route.type", "offsets.storage.topic"} & config.keys()
    wrong = [
        key for key in config if key.startswith(("sync.", "heartbeats.", "emit.heartbeats")) and config[key] != "false"
    ]
    assert wrong == [] and config["enabled"] == "true"


def test_the_scope_takes_these_configurations_and_not_productions() -> None:
    """What the drill makes passes its own guard."""
    scope = scope_of(NAMES, NAMING, ALIASES, ("orders", "payments"), ("active",))
    name = NAMES.source_connector(*ALIASES)
    config = drill_config(PRODUCTION, TOPICS, GROUPS, ALIASES)
    require_request(scope, "POST", "/connectors", {"name": name, "config": config})
    for key in ("transforms", "offsets.storage.topic"):
        with pytest.raises(OutsideDrill):
            require_request(scope, "PUT", f"/connectors/{name}/config", {**config, key: PRODUCTION[key]})
    cut = without_source(config)
    require_request(scope, "PUT", f"/connectors/{name}/config", cut)
    assert cut["source.cluster.bootstrap.servers"] == "127.0.0.1:9"
