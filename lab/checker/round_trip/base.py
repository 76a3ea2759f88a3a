"""Base class of the checks of one client move (failover or failback).

The checker's ledger (`lab.checker.ledger`) has all records that clients wrote. A place is (topic, partition), a log is
(cluster's alias, place).
"""

from __future__ import annotations

from lab.checker.findings import CheckResult
from lab.checker.ledger import Log, Place, Topic
from lab.checker.round_trip.observed import RoundTripObserved


class TripChecks:
    """Stores what every check of one client move uses: both clusters' state, the checker's ledger, and the result.

    Source and target are the clusters that clients left and moved to.
    """

    def __init__(self, observed: RoundTripObserved) -> None:
        self.seen, self.trip, self.ledger, self.names = observed, observed.trip, observed.ledger, observed.names
        self.verdict = CheckResult()
        self.source, self.target = observed.readers[self.trip.source], observed.readers[self.trip.target]
        self._rereads = 0

    def _topic(self, log: Log) -> Topic:
        return self.ledger.topics[self.names.local(log[1][0])]

    def _compacted(self, place: Place) -> bool:
        return self.ledger.topics[place[0]].compacted

    def _target_clients_write(self, log: Log) -> bool:
        return self.trip.target in self.names.written_on(log)

    def _is_recreated(self, log: Log) -> bool:
        """Whether the failback to check deleted and recreated the log's topic on the returned cluster.

        True in mode `recreate` for logs to which the flow back mirrors.
        """
        return self.trip.mode == "recreate" and self.trip.source in self.names.written_on(log)

    def _mirrored_place(self, place: Place) -> Place:
        return self.names.counterpart((self.trip.source, place))[1]

    def _local_place(self, place: Place) -> Place:
        return self.names.local(place[0]), place[1]

    def _id_of(self, log: Log, offset: int) -> str | None:
        digest = next((record.digest for record in self.seen.logs[log] if record.offset == offset), None)
        return next((record.id for _, _, record in self.ledger.written(log) if record.digest == digest), None)
