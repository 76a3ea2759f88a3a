"""Connectors of production that would take up a drill are named; those that exclude it are not."""

from __future__ import annotations

import pytest
from kafka_dr.domain.drill.names import DrillNames, drill_naming
from kafka_dr.domain.drill.scope import scope_of
from kafka_dr.domain.drill.separation import EXCLUSION, taken_up
from kafka_dr.domain.mirror_maker.naming import NamingSpec, naming_of

ALIASES = ("primary", "standby")
SOURCE = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
CHECKPOINT = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"


@pytest.fixture(params=["identity", "default"])
def found(request: pytest.FixtureRequest):
    """Return a function: configuration of one connector of production -> names of a drill that it would take up."""
    spec = NamingSpec(request.param)
    scope = scope_of(DrillNames("failover_drill-r1"), drill_naming(spec, ALIASES), ALIASES, ("orders",), ("active",))

    def named(config: dict[str, str]) -> list[str]:
        config = {"source.cluster.alias": "primary", "target.cluster.alias": "standby", **config}
        rows = taken_up({("connect", "c"): config}, naming_of(spec, ALIASES), "4.3.1", scope.topics, scope.groups)
        return [row.name for row in rows]

    return named


def test_a_flow_of_everything_takes_up_the_drills_checkpoints(found) -> None:
    """MirrorMaker 2's defaults since 4.0 exclude neither another separator's checkpoints nor its offset syncs."""
    (name,) = found({"connector.class": SOURCE, "topics": ".*"})
    assert "switchback-drill" in name


def test_the_exclusion_is_enough(found) -> None:
    """It is the one line that the refusal prints."""
    assert found({"connector.class": SOURCE, "topics": ".*", "topics.exclude": f"__.*,{EXCLUSION}"}) == []


def test_checkpoints_leave_the_drills_groups_alone_by_default(found) -> None:
    """Unless the default of groups.exclude was replaced."""
    assert found({"connector.class": CHECKPOINT, "groups": ".*"}) == []
    assert found({"connector.class": CHECKPOINT, "groups": ".*", "groups.exclude": "console-.*"}) != []


def test_a_sink_that_reads_by_a_pattern_is_named(found) -> None:
    """Also one whose pattern cannot be understood; one of literal topics is not."""
    sink = {"connector.class": "com.example.Sink"}
    assert found({**sink, "topics": "orders"}) == []
    assert found({**sink, "topics.regex": "orders.*"}) == []
    assert found({**sink, "topics.regex": ".*orders.*"}) != []
    assert found({**sink, "topics.regex": "(?<x"}) != []
