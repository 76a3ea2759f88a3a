"""Falsify a position or a record on the target after a failover, to show that the checker detects the change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from lab.checker.readers import ClusterReader, Place
from lab.checker.records import Held
from lab.rehearsal.planned import Rehearsal

REQUEST_SECONDS = 30.0


class Tampering:
    """Changes one position or record on the target as `admin`, outside of the product."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._rehearsal, status = rehearsal, rehearsal.status
        self._reader = ClusterReader(rehearsal.target, status)
        self._admin = AdminClient(dict(status["clusters"][rehearsal.target]["client_properties"]["admin"]))

    def move_position(self) -> str:
        """Move one group's position on the target past the group's next record; return a description.

        Raises:
            LookupError: no group without consumers has unread records.
        """
        for group, place, position in self._idle_positions():
            log = self._log(place)
            next_offset = next((record.offset for record in log if record.offset >= position), None)
            if next_offset is not None:
                new_position = TopicPartition(*place, next_offset + 1)
                request = ConsumerGroupTopicPartitions(group, [new_position])
                self._await_all(self._admin.alter_consumer_group_offsets([request], request_timeout=REQUEST_SECONDS))
                return f"group {group} was moved on {place[0]}-{place[1]} from {position} to {next_offset + 1}"
        raise LookupError("nothing was changed: no group without consumers has unread records on the target")

    def withhold_record(self) -> str:
        """Delete the first record of a partition of a plain topic from the target; return a description.

        Raises:
            LookupError: no plain topic has records on the target.
        """
        for place, record_id in self._plain_places():
            log = self._log(place)
            if log:
                self._await_all(
                    self._admin.delete_records(
                        [TopicPartition(*place, log[0].offset + 1)], request_timeout=REQUEST_SECONDS
                    )
                )
                return f"record {record_id} was removed from {place[0]}-{place[1]}, offset {log[0].offset}"
        raise LookupError("nothing was changed: no plain topic has records on the target")

    def _idle_positions(self) -> Iterator[tuple[str, Place, int]]:
        for group, positions in self._reader.positions(self._rehearsal.idle_groups).items():
            for place, position in positions.items():
                yield group, place, position

    def _plain_places(self) -> Iterator[tuple[Place, str]]:
        for topic in self._rehearsal.truth.topics.values():
            for partition, records in topic.records.items() if topic.kind == "plain" else ():
                yield (self._rehearsal.remote(topic.name), partition), str(records[0].id)

    def _log(self, place: Place) -> list[Held]:
        return self._reader.read([place], "read_uncommitted")[place]

    def _await_all(self, futures: dict[Any, Any]) -> None:
        for future in futures.values():
            future.result()


TAMPERINGS = {"position": Tampering.move_position, "record": Tampering.withhold_record}
