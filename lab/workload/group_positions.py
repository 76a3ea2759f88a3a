"""Plan groups with positions (various lags, difficult offsets), and commit these positions in several ways."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from lab.workload.ground_truth import ABORTED, TopicTruth
from lab.workload.topic_shapes import WORDS

LAGS: dict[str, int] = {"lag0": 0, "lag1": 1, "lag10": 10, "lag1000": 1000}
FOREIGN = ("группа", "注文", "läufer ☕", "مجموعة", "grupo ñandú", "κατανάλωση")
#: Group names that break careless templates, web pages, spreadsheets, paths, shells, options and text with writing
#: directions. No name has a line feed, which MirrorMaker 2's `.*` does not match: such a group would be in no flow.
HOSTILE = (
    "{{ 7*7 }}{% raw %}",
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "../../etc/passwd",
    "$(reboot);`id`",
    "--help",
    "\u202egnp.exe",
)
ADMIN, STANDALONE, MEMBER, NEW_PROTOCOL = "admin", "standalone", "member", "new-protocol"
JOIN_SECONDS = 30.0


class PartitionSpan(NamedTuple):
    """One partition's log: log start, log end, and `returned`, the offsets at which a consumer gets a record."""

    start: int
    end: int
    returned: frozenset[int]

    @property
    def holes(self) -> list[int]:
        """Offsets from start to end without a record: of transaction markers, and of records removed by compaction."""
        return [offset for offset in range(self.start, self.end) if offset not in self.returned]


class GroupPlan(NamedTuple):
    """One group to create.

    Args:
        group: the group's id.
        how: how positions are committed. `ADMIN`: by an admin client; `STANDALONE`: by a consumer without subscription;
            `MEMBER`: by a member of the group; `NEW_PROTOCOL`: by a member with group.protocol=consumer.
        positions: the positions to commit, by (topic, partition).
    """

    group: str
    how: str
    positions: dict[tuple[str, int], int]


class GroupPlanner:
    """Plans groups and their positions from the spans of the topics' logs."""

    def __init__(
        self, rng: random.Random, spans: Mapping[tuple[str, int], PartitionSpan], new_protocol: bool = True
    ) -> None:
        """Take the spans by topic and partition; without `new_protocol` ordinary members stand for such groups."""
        self._new_protocol = new_protocol
        self._rng = rng
        self._spans = spans

    def plans(self, topics: Iterable[TopicTruth]) -> Iterator[GroupPlan]:
        """Yield, for each topic, plans of groups with positions on this topic, and three plans with several topics."""
        topics = list(topics)
        # One random generator per topic: holes that the cleaner made in one topic must not change other topics' groups.
        generators = {topic.name: random.Random(self._rng.randrange(2**32)) for topic in topics}
        across_generator = random.Random(self._rng.randrange(2**32))
        for topic in topics:
            self._rng = generators[topic.name]
            yield from self._by_lag(topic)
            yield from self._scattered(topic)
            yield from self._awkward(topic)
        self._rng = across_generator
        for _ in range(3):
            yield self._across(self._rng.sample(topics, min(5, len(topics))))

    def _by_lag(self, topic: TopicTruth) -> Iterator[GroupPlan]:
        for label, lag in LAGS.items():
            yield self._plan(
                topic, label, {p: max(span.start, span.end - lag) for p, span in self._spans_of(topic).items()}
            )
        yield self._plan(topic, "half", {p: (span.start + span.end) // 2 for p, span in self._spans_of(topic).items()})
        yield self._plan(topic, "beginning", {p: span.start for p, span in self._spans_of(topic).items()})

    def _scattered(self, topic: TopicTruth) -> Iterator[GroupPlan]:
        for _ in range(2):
            yield self._plan(
                topic,
                "scattered",
                {p: self._rng.randint(span.start, span.end) for p, span in self._spans_of(topic).items()},
            )
        # A group with positions on some partitions only: the product must not commit its positions on other partitions.
        some = self._rng.sample(range(topic.partitions), max(1, topic.partitions // 2))
        partly = {p: self._rng.randint(span.start, span.end) for p, span in self._spans_of(topic).items() if p in some}
        yield self._plan(topic, "partly", partly)

    def _awkward(self, topic: TopicTruth) -> Iterator[GroupPlan]:
        holes = {p: span.holes for p, span in self._spans_of(topic).items()}
        aborted = {
            p: [r.offset for r in topic.records.get(p, []) if r.state == ABORTED] for p in range(topic.partitions)
        }
        for label, offsets in (("in a hole", holes), ("on aborted", aborted)):
            awkward = {p: offsets_there for p, offsets_there in offsets.items() if offsets_there}
            # `min` and `max`: the first and the last such offset have a neighbour to translate from on one side only.
            for pick in (self._rng.choice, self._rng.choice, min, max) if awkward else ():
                yield self._plan(topic, label, {p: pick(offsets_there) for p, offsets_there in awkward.items()})

    def _across(self, topics: list[TopicTruth]) -> GroupPlan:
        positions = {}
        for topic in topics:
            for partition, span in self._spans_of(topic).items():
                positions[topic.name, partition] = self._rng.randint(span.start, span.end)
        return GroupPlan(self._name("across"), ADMIN, positions)

    def _plan(self, topic: TopicTruth, label: str, positions: dict[int, int]) -> GroupPlan:
        how = self._rng.choices([ADMIN, STANDALONE, MEMBER, NEW_PROTOCOL], [60, 30, 7, 3])[0]
        if how == NEW_PROTOCOL and not self._new_protocol:
            how = MEMBER
        return GroupPlan(
            self._name(label), how, {(topic.name, partition): offset for partition, offset in positions.items()}
        )

    def _name(self, label: str) -> str:
        stem = self._rng.choice(*self._rng.choices([WORDS, FOREIGN, HOSTILE], [70, 20, 10]))
        suffix = f"{self._rng.randrange(16**6):06x}"
        # About half of the names have a space and a slash, which break careless paths and URLs.
        return f"{stem} {label}/{suffix}" if self._rng.random() < 0.5 else f"{stem}-{label.replace(' ', '.')}-{suffix}"

    def _spans_of(self, topic: TopicTruth) -> dict[int, PartitionSpan]:
        return {partition: self._spans[topic.name, partition] for partition in range(topic.partitions)}


class Committer:
    """Commits groups' positions on one cluster: by admin client, by a consumer without subscription, or by a member."""

    def __init__(self, admin: AdminClient, consumer_properties: Mapping[str, Any]) -> None:
        self._admin = admin
        self._properties = {
            **consumer_properties,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }

    def commit(self, plans: Iterable[GroupPlan]) -> None:
        """Commit the positions of every plan.

        Raises:
            RuntimeError: a position was not committed.
        """
        plans = list(plans)
        pending = [self._commit_as_admin(plan) for plan in plans if plan.how == ADMIN]
        for plan in plans:
            if plan.how != ADMIN:
                self._commit_as_consumer(plan)
        for futures in pending:
            for group, future in futures.items():
                _raise_errors(group, future.result().topic_partitions)

    def _commit_as_admin(self, plan: GroupPlan) -> dict[str, Any]:
        request = ConsumerGroupTopicPartitions(plan.group, _offsets(plan))
        return self._admin.alter_consumer_group_offsets([request], request_timeout=30)

    def _commit_as_consumer(self, plan: GroupPlan) -> None:
        protocol = {"group.protocol": "consumer"} if plan.how == NEW_PROTOCOL else {}
        consumer = Consumer({**self._properties, **protocol, "group.id": plan.group})
        try:
            if plan.how != STANDALONE:
                _join(plan.group, consumer, sorted({topic for topic, _ in plan.positions}))
            _raise_errors(plan.group, consumer.commit(offsets=_offsets(plan), asynchronous=False))
        finally:
            consumer.close()


def _join(group: str, consumer: Consumer, topics: list[str]) -> None:
    assigned: list[bool] = []
    consumer.subscribe(topics, on_assign=lambda *_: assigned.append(True))
    for _ in range(int(JOIN_SECONDS / 0.1)):
        consumer.poll(0.1)
        if assigned:
            return
    raise TimeoutError(
        f"a consumer of group {group} was assigned no partition of {topics} within {JOIN_SECONDS:.0f} s; read the"
        " broker's log"
    )


def _offsets(plan: GroupPlan) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in plan.positions.items()]


def _raise_errors(group: str, partitions: Iterable[TopicPartition]) -> None:
    for partition in partitions:
        if partition.error:
            raise RuntimeError(
                f"the position of group {group} on {partition.topic}-{partition.partition} was not committed:"
                f" {partition.error}; read the broker's log"
            )
