"""Whatever the probe's topic looks like, what is added and given back lets every live broker lead a partition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.fencing.probe_partitions import led_by, misled_partitions, missing_assignment

IDS = st.integers(0, 9)
BROKERS = st.sets(IDS, min_size=1, max_size=6).map(sorted)


@st.composite
def topics(draw: st.DrawFn) -> tuple[list[int], dict[int, list[int]], dict[int, int | None]]:
    """Return live brokers, and replicas and leaders of a topic by partition."""
    replicas = draw(st.lists(st.lists(IDS, min_size=1, max_size=3, unique=True), min_size=1, max_size=6))
    leaders = [draw(st.sampled_from([*held, None])) for held in replicas]
    return draw(BROKERS), dict(enumerate(replicas)), dict(enumerate(leaders))


@given(topics())
def test_every_live_broker_leads_a_partition_in_the_end(
    topic: tuple[list[int], dict[int, list[int]], dict[int, int | None]],
) -> None:
    """After the new partitions and the elections; no partition is added for a broker that has one."""
    brokers, replicas, leaders = topic
    assignment = missing_assignment(brokers, replicas)
    for held in assignment:
        assert len(set(held)) == len(held) == min(len(brokers), len(replicas[0])) and set(held) <= set(brokers)
        leaders[len(replicas)] = held[0]
        replicas[len(replicas)] = held
    assert missing_assignment(brokers, replicas) == []
    for partition in misled_partitions(brokers, replicas, leaders):
        leaders[partition] = replicas[partition][0]
    assert sorted(led_by(brokers, leaders)) == brokers
    assert misled_partitions(brokers, replicas, leaders) == []


def test_a_partition_without_a_leader_is_led_by_nobody() -> None:
    """And a leader that is not live counts for nothing."""
    assert led_by([1, 2], {0: None, 1: 3, 2: 2, 3: 2}) == {2: 2}


def test_a_broker_that_loses_its_only_partition_gets_one_back() -> None:
    """Broker 1 leads only partition 1, which broker 0 prefers: partition 2, which broker 1 prefers, returns as well."""
    replicas, leaders = {0: [0, 2], 1: [0, 1], 2: [1, 2]}, {0: 2, 1: 1, 2: 2}
    assert misled_partitions([0, 1], replicas, leaders) == [0, 1, 2]
