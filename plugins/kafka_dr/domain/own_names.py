"""Names of Switchback's own topics, connector and transactional ids, in production and in a drill."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_dr.vocabulary import (
    CANARY_TOPIC,
    CHECK_TRANSACTIONAL_ID,
    EXEMPT_CONNECTOR,
    EXEMPT_TOPIC,
    PROBE_TOPIC,
    PROGRESS_TOPIC,
)


@dataclass(frozen=True)
class OwnNames:
    """Names that one run uses for what Switchback itself makes on the clusters; the defaults are production's.

    Attributes:
        probe: the topic to which the probe writes, to prove a fence.
        canary: the topic to which a record is written once the target is open.
        progress: the topic with the progress records of a replay.
        exempt_topic: the topic that MirrorMaker 2 copies before the fence, to prove that the fence spares it.
        exempt_connector: the connector that copies `exempt_topic`.
        check: the transactional id that has no transaction: a try to abort it proves the rights to abort others.
        replay: the transactional id of a replay; None for production's, which has the pair of clusters in its name.
    """

    probe: str = PROBE_TOPIC
    canary: str = CANARY_TOPIC
    progress: str = PROGRESS_TOPIC
    exempt_topic: str = EXEMPT_TOPIC
    exempt_connector: str = EXEMPT_CONNECTOR
    check: str = CHECK_TRANSACTIONAL_ID
    replay: str | None = None

    def replay_id(self, pair: str) -> str:
        """Return the transactional id of a replay between the clusters of a pair."""
        return self.replay or f"__switchback-replay-{pair}"
