"""What the checks of one change of sides have in common."""

from __future__ import annotations

from lab.checker.findings import Verdict
from lab.checker.ledger import Log, Place, Topic
from lab.checker.round_trip.observed import RoundTripObserved


class TripChecks:
    """What every check of one change of sides reads, and where findings go."""

    def __init__(self, exhibits: RoundTripObserved) -> None:
        self.seen, self.trip, self.ledger, self.names = exhibits, exhibits.trip, exhibits.ledger, exhibits.names
        self.verdict = Verdict()
        self.source, self.target = exhibits.readers[self.trip.source], exhibits.readers[self.trip.target]
        self._rereads = 0

    def _topic(self, log: Log) -> Topic:
        return self.ledger.topics[self.names.local(log[1][0])]

    def _compacted(self, place: Place) -> bool:
        return self.ledger.topics[place[0]].compacted

    def _clients_wrote(self, log: Log) -> bool:
        return self.trip.target in self.names.written_on(log)

    def _deleted(self, log: Log) -> bool:
        """Whether a log of the returned cluster is made anew: it holds what the flow back copies."""
        return self.trip.mode == "recreate" and self.trip.source in self.names.written_on(log)

    def _there(self, place: Place) -> Place:
        return self.names.counterpart((self.trip.source, place))[1]

    def _local(self, place: Place) -> Place:
        return self.names.local(place[0]), place[1]

    def _id_of(self, log: Log, offset: int) -> str | None:
        digest = next((one.digest for one in self.seen.logs[log] if one.offset == offset), None)
        return next((record.id for _, _, record in self.ledger.written(log) if record.digest == digest), None)
