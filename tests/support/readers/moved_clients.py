"""A procedure that has translated its groups, in memory, for tests of positions that are kept outside groups."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from kafka_dr.actions.scope.internal_topics import checkpoints_frame
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.mirror_maker.mirror_records import CheckpointColumns
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.run import Run
from kafka_dr.steps.planned import translate_offsets as step
from kafka_dr.steps.planned.translate_offsets import TranslateOffsets
from kafka_dr.vocabulary import Step

from tests.support.bench import GRANT, ORDERS

#: The target's records: after a crash MirrorMaker 2 mirrored 3 and 4 a second time.
ON_TARGET = (0, 1, 2, 3, 4, 3, 4, 5, 6, 7, 8, 9)
NO_SYNCS = {"topic": object, "partition": "int32", "upstream": "int64", "downstream": "int64", "sequence": "int64"}


class MovedClients:
    """A planned failover of `orders` whose groups stood at each position of the source.

    Attributes:
        bench: clusters and journal; the target is open to clients.
        procedure: done up to translate_offsets.
        groups: translated positions of the groups, by position.
    """

    def __init__(self, bench: Any, jobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench, self.jobs = bench, jobs
        monkeypatch.setattr(
            step, "offset_syncs_of", lambda one: [pd.DataFrame(columns=list(NO_SYNCS)).astype(NO_SYNCS)]
        )
        empty = checkpoints_frame(CheckpointColumns([], [], [], [], []))
        monkeypatch.setattr(step, "checkpoints_of", lambda one: empty)
        self.source, self.target = (bench.clusters[alias] for alias in ("primary", "standby"))
        self.source.records[ORDERS] = {offset: str(offset) for offset in range(10)}
        self.target.records[ORDERS] = {offset: str(content) for offset, content in enumerate(ON_TARGET)}
        self.target.log_ends[ORDERS] = len(ON_TARGET)
        self.procedure: Run = bench.planned(groups=tuple(f"g{position}" for position in range(11)))
        self.translate()
        self.open_target()

    def translate(self) -> None:
        """Write the outcomes from the fence to the translation, which is made for real."""
        bench, procedure = self.bench, self.procedure
        cut_off = procedure.artifacts.save("cut_off", partitions_frame({ORDERS: 10}, "offset"))
        bench.done(procedure, Step.FENCE_PRODUCERS, cut_off=cut_off, fenced_at=procedure.now())
        groups = [f"g{position}" for position in range(11)]
        frame = pd.DataFrame({"group": groups, "topic": "orders", "partition": 0, "position": range(11)})
        held = frame.assign(position_at=0, policy="earliest").astype({"partition": "int32"})
        positions = procedure.artifacts.save("source_positions", held)
        bench.done(procedure, Step.DRAIN_CONSUMERS, groups=groups, positions=positions)
        boundary = procedure.artifacts.save("boundary", partitions_frame({ORDERS: len(ON_TARGET)}, "offset"))
        bench.done(procedure, Step.STOP_MIRROR_MAKER, boundary=boundary)
        outcome = TranslateOffsets(task_id=Step.TRANSLATE_OFFSETS).act(procedure, bench.context())
        record_fact(procedure.authority, Step.TRANSLATE_OFFSETS, outcome)
        self.groups = procedure.artifacts.load(outcome.translation).set_index("position").sort_index()

    def open_target(self) -> None:
        """Let clients write: they do so at once, and the logs of both clusters go on."""
        self.target.acls |= {GRANT}
        for cluster, records in ((self.source, 3), (self.target, 5)):
            end = cluster.log_ends[ORDERS]
            cluster.records[ORDERS] |= {end + number: f"later {number}" for number in range(records)}
            cluster.log_ends[ORDERS] = end + records


def positions_at(*offsets: int, topic: str = "orders", **columns: Any) -> pd.DataFrame:
    """Return a frame of positions on partition 0; columns such as `reader` may be added, as lists."""
    frame = pd.DataFrame({"topic": [topic] * len(offsets), "partition": 0, "offset": list(offsets)})
    return frame.assign(**columns).astype({"topic": object, "partition": "int32", "offset": "int64"})


def readers_at(*offsets: int) -> pd.DataFrame:
    """Return a frame of positions of as many readers, who are called by their positions."""
    return positions_at(*offsets, reader=[f"r{offset}" for offset in offsets])
