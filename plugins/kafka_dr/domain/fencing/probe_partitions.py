"""Which partitions of the probe's topic the brokers lead, and what is missing so that each broker leads one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def led_by(brokers: Sequence[int], leaders: Mapping[int, int | None]) -> dict[int, int]:
    """Return broker id -> the first partition that the broker leads; brokers that lead none are left out."""
    led: dict[int, int] = {}
    for partition, leader in sorted(leaders.items()):
        if leader is not None and leader in brokers:
            led.setdefault(leader, partition)
    return led


def missing_assignment(brokers: Sequence[int], replicas: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Return the replicas of the partitions to add, so that each broker is the preferred leader of a partition.

    A new partition has as many replicas as partition 0; the others are on the brokers that follow by id.

    Args:
        brokers: ids of the live brokers, sorted.
        replicas: partition -> ids of the brokers with its replicas; the first is the preferred leader.
    """
    preferred = {ids[0] for ids in replicas.values() if ids}
    count = min(len(brokers), len(replicas[0]))
    ring = [*brokers, *brokers]
    return [ring[at : at + count] for at, broker in enumerate(brokers) if broker not in preferred]


def misled_partitions(
    brokers: Sequence[int], replicas: Mapping[int, Sequence[int]], leaders: Mapping[int, int | None]
) -> list[int]:
    """Return the partitions to give back to their preferred leaders, so that each live broker leads a partition.

    Given back are those of a live broker that leads none now, or none any more once others are given back.
    """
    given: dict[int, int] = {}
    while True:
        led = led_by(brokers, {**leaders, **given})
        more = {p: ids[0] for p, ids in replicas.items() if ids and ids[0] in brokers and ids[0] not in led}
        if not more:
            return sorted(given)
        given |= more
