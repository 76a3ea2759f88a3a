"""The JSON of changes of a connector's offsets, and what differs between expected and stored offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.plain_text import first_few
from kafka_dr.errors import BadInput


def offsets_body(alias: str, changes: Mapping[TopicPartition, int | None]) -> dict[str, Any]:
    """Return the body of a PATCH that sets last replicated offsets; None deletes a partition's offset."""
    return {
        "offsets": [
            {
                "partition": {"cluster": alias, "topic": topic, "partition": partition},
                "offset": None if last is None else {"offset": last},
            }
            for (topic, partition), last in changes.items()
        ]
    }


def offset_differences(
    expected: Mapping[str, Mapping[TopicPartition, int | None]],
    stored: Mapping[str, Mapping[TopicPartition, int | None]],
) -> list[str]:
    """Return a text for each source alias and partition whose stored and expected offsets differ.

    A missing partition equals a partition with the offset None.
    """
    keys = sorted(
        {(alias, tp) for by_alias in (expected, stored) for alias, offsets in by_alias.items() for tp in offsets}
    )
    pairs = ((alias, tp, expected.get(alias, {}).get(tp), stored.get(alias, {}).get(tp)) for alias, tp in keys)
    return [f"{alias}/{tp}: expected {want}, read back {have}" for alias, tp, want, have in pairs if want != have]


def refuse_invalid(name: str, changes: Mapping[TopicPartition, int | None]) -> None:
    """Raise BadInput if a last replicated offset of a connector is neither None nor a whole number of 0 or more."""
    invalid = [
        f"{tp}: {last!r}" for tp, last in changes.items() if last is not None and (type(last) is not int or last < 0)
    ]
    if invalid:
        raise BadInput(
            "last replicated offsets must be 0 or more, or None to start at 0",
            first_few(invalid, 10),
            f"report this message as a defect of Switchback; no offset of {name} was changed",
        )
