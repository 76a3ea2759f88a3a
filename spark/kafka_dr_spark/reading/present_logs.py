"""Read logs as they are at this moment: records deleted meanwhile are passed over, and a range may have no end."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kafka_dr_spark.reading.windows import KafkaAccess, OpenWindow, WindowReader
from kafka_dr_spark.translation.case import Limits

#: End of a window that is read to the log's present end.
OPEN_END = 2**62
_SECONDS = 30.0
#: Cluster (SOURCE or TARGET), topic there, partition.
Log = tuple[str, str, int]


class PresentWindow(OpenWindow):
    """A window that may have no end."""

    def end_seen(self, offset: int) -> bool:
        """Store the offset at which the log ends now; return whether the window is complete."""
        return super().end_seen(offset) or self.window.end == OPEN_END


class PresentReader(WindowReader):
    """Reads windows of logs whose oldest records retention may delete at any time.

    Attributes:
        risen: the log starts that were met above the start of a window; such a window has the records that are left.
    """

    opened = PresentWindow

    def __init__(self, access: KafkaAccess, limits: Limits) -> None:
        super().__init__(access, limits)
        self.risen: dict[Log, int] = {}

    def _take_in(
        self, side: str, messages: list[Message], pending: dict[tuple[str, int], OpenWindow]
    ) -> list[tuple[str, int]]:
        errors = {error.code() for error in map(Message.error, messages) if error is not None}
        if KafkaError._AUTO_OFFSET_RESET not in errors:
            return super()._take_in(side, messages, pending)
        passed = [message for message in messages if not self._passes_deleted(side, message, pending)]
        gone = [name for name, window in pending.items() if window.window.end <= self.risen.get((side, *name), 0)]
        for name in gone:
            del pending[name]
        return gone + super()._take_in(side, passed, pending)

    def _passes_deleted(self, side: str, message: Message, pending: dict[tuple[str, int], OpenWindow]) -> bool:
        """Go on at the log's start if a message states that the window's records below it are deleted."""
        error, name = message.error(), (message.topic() or "", message.partition() or 0)
        if error is None or error.code() != KafkaError._AUTO_OFFSET_RESET or name not in pending:
            return False
        consumer, start = self._consumers[side], pending[name].window.start
        try:
            low, _ = consumer.get_watermark_offsets(TopicPartition(*name), timeout=_SECONDS)
        except KafkaException:
            return False
        if low <= start:
            return False
        self.risen[side, *name] = low
        consumer.incremental_unassign([TopicPartition(*name)])
        consumer.incremental_assign([TopicPartition(*name, low)])
        return True
