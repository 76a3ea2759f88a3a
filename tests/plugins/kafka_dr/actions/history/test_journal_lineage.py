"""Which stretches of two logs came from which: by the receipts of the procedures that moved clients, and of
nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from kafka_dr.actions.history.segment_frames import write_lineage
from kafka_dr.actions.offsets.early_translation import write_translation
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import OffsetSync, encode_offset_sync
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import EndsNoted, TopicsToCreate
from kafka_dr.procedure.run import Run
from kafka_dr.steps.planned import translate_offsets as step
from kafka_dr.steps.planned.translate_offsets import TranslateOffsets
from kafka_dr.vocabulary import Entry, Step

ORDERS, BORN = TopicPartition("orders", 0), TopicPartition("born", 0)
PAIR = "primary+standby"
NO_PAIRS = pd.DataFrame({"topic": [], "partition": [], "upstream": [], "downstream": [], "sequence": []})


class Trips:
    """Procedures of one pair, one after the other; the last one that is begun is the one that translates."""

    def __init__(self, bench: Any, folder: Path) -> None:
        self.bench, self.folder, self.count = bench, folder, 0
        self.procedure: Run | None = None

    def begin(self, source: str, target: str, ids: dict[str, str] | None = None) -> Run:
        """Open a procedure whose source's topics have these ids, after the end of the one before."""
        if self.procedure is not None:
            self.bench.journal.release_lease(PAIR, self.procedure.id, self.bench.journal.lease(PAIR).epoch, "completed")
        self.count += 1
        self.bench.params = {"source": source, "target": target, "reason": "r"}
        self.procedure = self.bench.opened(f"t{self.count}")
        told = {"orders": "id-orders"} | (ids or {})
        topics = [[name, name, 1, topic_id] for name, topic_id in told.items()]
        self.bench.done(self.procedure, Step.FORECAST, plan={"topics": topics})
        return self.procedure

    def note(self, step: Step, ends: dict[TopicPartition, int]) -> None:
        """The step of the last procedure noted where logs ended before it started a flow."""
        kept = self.procedure.artifacts.save("ends_before", partitions_frame(ends, "offset"))
        record_fact(self.procedure.authority, step, EndsNoted(ends_before=kept))

    def found(self, after: Run, source_end: int, resumes: int) -> None:
        """The last procedure looked for stranded records."""
        frame = pd.DataFrame(
            {
                "topic": ["orders"],
                "partition": [0],
                "source_end": [0],
                "source_tail": [source_end],
                "source_resumes": [resumes],
            }
        )
        self.bench.done(
            self.procedure,
            Step.FIND_STRANDED_RECORDS,
            after=after.id,
            frontier=self.procedure.artifacts.save("frontier", frame),
        )

    def opens(self, cut_off: dict[TopicPartition, int] | None, boundary: dict[TopicPartition, int]) -> Run:
        """The last procedure opens its target; one without a cut-off had given its source up."""
        kept = {
            name: self.procedure.artifacts.save(name, partitions_frame(ends, "offset"))
            for name, ends in (("cut_off", cut_off or {}), ("boundary", boundary))
        }
        if cut_off is not None:
            self.bench.done(self.procedure, Step.FENCE_PRODUCERS, cut_off=kept["cut_off"])
        self.bench.done(self.procedure, Step.STOP_MIRROR_MAKER, boundary=kept["boundary"])
        self.bench.done(self.procedure, Step.OPEN_TARGET)
        return self.procedure

    def bounds(self, cut_off: int | None, boundary: int | None, topic: str = "orders") -> pd.DataFrame:
        """Where both logs end now."""
        ends = {name: pd.array([end], "Int64") for name, end in (("cut_off", cut_off), ("boundary", boundary))}
        return pd.DataFrame({"topic": [topic], "partition": [0]} | ends).astype({"partition": "int32"})

    def write(
        self, cut_off: int | None = 500, boundary: int | None = 500, position: int = 3, topic: str = "orders"
    ) -> dict[str, str]:
        """What the last procedure writes for its translation."""
        positions = pd.DataFrame({"group": ["g"], "topic": [topic], "partition": [0], "position": [position]}).astype(
            {"partition": "int32"}
        )
        return write_lineage(self.procedure, self.folder, self.bounds(cut_off, boundary, topic), positions)

    def segments(self, *args: Any, **kwargs: Any) -> list[list[Any]]:
        """The segments' offsets and whether they were copied back; an open end is None."""
        self.write(*args, **kwargs)
        path = self.folder / "segments.parquet"
        if not path.exists():
            return []
        rows = pd.read_parquet(path, dtype_backend="numpy_nullable")
        assert rows["segment"].tolist() == list(range(len(rows)))
        return [
            [None if pd.isna(one) else one for one in row]
            for row in rows[["source_from", "source_to", "target_from", "target_to", "copied_back"]].values.tolist()
        ]


@pytest.fixture
def trips(bench: Any, tmp_path: Path) -> Trips:
    """Two clusters with identity naming; nobody went anywhere yet."""
    bench.clusters["primary"].partitions |= {"born": {0: 1}}
    bench.clusters["standby"].partitions |= {"born": {0: 1}}
    return Trips(bench, tmp_path)


def test_a_first_failover_writes_nothing(trips: Trips) -> None:
    """Nobody moved clients: the translation gets what it has always got."""
    trips.begin("primary", "standby")
    assert trips.segments() == [] and list(trips.folder.iterdir()) == []


def test_on_the_way_back_older_records_are_copies(trips: Trips) -> None:
    """Below the boundary the new primary holds copies of the old one's; what follows is copied back behind the
    cut-off.
    """
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.begin("standby", "primary")
    assert trips.segments() == [[0, 104, 0, 100, True], [104, None, 100, None, False]]


def test_after_a_round_trip_there_are_three_segments(trips: Trips) -> None:
    """The files have the columns and types that the job is promised."""
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.begin("standby", "primary")
    trips.opens({ORDERS: 200}, {ORDERS: 196})
    trips.begin("primary", "standby")
    assert trips.segments() == [[0, 100, 0, 104, False], [100, 196, 104, 200, True], [196, None, 200, None, False]]
    found = pd.read_parquet(trips.folder / "segments.parquet")["drained"].tolist()
    assert found == [True, True, False], "both changes of sides were planned"
    types = pd.read_parquet(trips.folder / "segments.parquet", dtype_backend="pyarrow").dtypes.astype(str).to_dict()
    offsets_of_both = dict.fromkeys(("source_from", "source_to", "target_from", "target_to"), "int64[pyarrow]")
    assert types == {
        "topic": "string[pyarrow]",
        "partition": "int32[pyarrow]",
        "segment": "int32[pyarrow]",
        **offsets_of_both,
        "copied_back": "bool[pyarrow]",
        "drained": "bool[pyarrow]",
        "copied_to": "int64[pyarrow]",
    }


def test_under_default_naming_nothing_is_written(make_bench: Any, tmp_path: Path) -> None:
    """Each pair of logs has one direction for ever."""
    trips = Trips(make_bench(naming={"policy": "default", "separator": "."}), tmp_path)
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.begin("standby", "primary")
    assert trips.segments() == []


def test_a_procedure_that_returned_moved_nobody(trips: Trips) -> None:
    """Nor did one that never opened its target."""
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.bench.done(trips.procedure, Step.RETURN_TO_SOURCE, touched=True)
    trips.begin("primary", "standby")
    trips.begin("primary", "standby")
    assert trips.segments() == []


def elsewhere(monkeypatch: pytest.MonkeyPatch, procedure: Run) -> None:
    """A procedure is one of other clusters."""
    pair = Run.pair.fget
    monkeypatch.setattr(Run, "pair", property(lambda self: "elsewhere" if self.id == procedure.id else pair(self)))


def test_another_pairs_procedures_do_not_count(trips: Trips, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is one for all pairs."""
    first = trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.begin("standby", "primary")
    elsewhere(monkeypatch, first)
    assert trips.segments() == []


def test_another_pairs_notes_do_not_count(trips: Trips, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their topics may have the same names."""
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    other = trips.begin("standby", "primary")
    trips.note(Step.START_FLOW_BACK, {ORDERS: 170})
    trips.begin("standby", "primary")
    elsewhere(monkeypatch, other)
    assert trips.segments() == [[0, 104, 0, 100, True], [104, None, 100, None, False]]


def test_a_note_of_a_later_change_of_sides_speaks_of_the_other_log(trips: Trips) -> None:
    """Clients had left another cluster then."""
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.begin("standby", "primary")
    trips.opens({ORDERS: 200}, {ORDERS: 196})
    trips.note(Step.START_REVERSE_REPLICATION, {ORDERS: 201})
    trips.begin("primary", "standby")
    assert trips.segments() == [[0, 100, 0, 104, False], [100, 196, 104, 200, True], [196, None, 201, None, False]]


def test_copies_begin_where_somebody_noted_it(trips: Trips) -> None:
    """Behind the ends of transactions that came after the cut-off; the oldest note counts, and none of a later
    change of sides.
    """
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.note(Step.START_REVERSE_REPLICATION, {ORDERS: 102})
    trips.begin("standby", "primary")
    trips.note(Step.START_FLOW_BACK, {ORDERS: 150})
    trips.opens({ORDERS: 200}, {ORDERS: 196})
    trips.note(Step.START_REVERSE_REPLICATION, {ORDERS: 201})
    trips.begin("primary", "standby")
    assert trips.segments() == [[0, 100, 0, 104, False], [102, 196, 104, 200, True], [196, None, 201, None, False]]


def test_a_lost_source_is_known_by_what_a_failback_found(trips: Trips) -> None:
    """The last look counts; what is stranded lies between two segments."""
    lost = trips.begin("primary", "standby")
    trips.opens(None, {ORDERS: 104})
    trips.begin("standby", "primary")
    trips.found(lost, 80, 90)
    trips.begin("standby", "primary")
    trips.found(lost, 100, 130)
    assert trips.segments() == [[0, 104, 0, 100, True], [104, None, 130, None, False]]


def test_without_a_look_at_a_lost_source_nothing_is_known(trips: Trips) -> None:
    """All positions lie below the only segment: what will be written goes behind both ends; the journal is told why."""
    trips.begin("primary", "standby")
    trips.opens(None, {ORDERS: 104})
    trips.begin("standby", "primary")
    assert trips.segments(300, 290) == [[300, None, 290, None, False]]
    assert trips.write(300, 290) == {
        "orders-0": "which records of primary were on standby when clients left is unknown"
    }


def test_where_not_even_the_sources_end_is_known_all_positions_lie_below(trips: Trips) -> None:
    """None lies where the only segment begins: it would be placed at the target's end. Where nobody asks, there is
    none.
    """
    trips.begin("primary", "standby")
    trips.opens(None, {ORDERS: 104})
    trips.begin("standby", "primary")
    assert trips.segments(None, 290, position=77) == [[78, None, 290, None, False]]
    assert trips.segments(None, None, position=77) == []


@pytest.mark.parametrize("name", ["cut_off", "boundary", "*"])
def test_a_receipt_that_is_gone_is_not_guessed(trips: Trips, name: str) -> None:
    """Neither is one that somebody changed."""
    first = trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    for kept in first.artifacts.folder.glob(f"{name}-*.parquet"):
        kept.write_bytes(b"other")
    trips.begin("standby", "primary")
    assert trips.segments(300, 290) == [[300, None, 290, None, False]]
    for kept in first.artifacts.folder.glob(f"{name}-*.parquet"):
        kept.unlink()
    assert trips.segments(300, 290) == [[300, None, 290, None, False]]


def test_without_its_cut_off_a_noted_end_tells_where_copies_begin(trips: Trips) -> None:
    """What is older stays unknown."""
    first = trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.note(Step.START_REVERSE_REPLICATION, {ORDERS: 102})
    (kept,) = first.artifacts.folder.glob("cut_off-*.parquet")
    kept.unlink()
    trips.begin("standby", "primary")
    assert trips.segments() == [[104, None, 102, None, False]]


def test_behind_a_receipt_that_is_gone_later_segments_are_known(trips: Trips) -> None:
    """Both logs go on from the next change of sides."""
    first = trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.begin("standby", "primary")
    trips.opens({ORDERS: 200}, {ORDERS: 196})
    trips.begin("primary", "standby")
    (kept,) = first.artifacts.folder.glob("boundary-*.parquet")
    kept.unlink()
    assert trips.segments() == [[196, None, 200, None, False]]


@pytest.mark.parametrize(("cut_off", "boundary"), [({ORDERS: 100}, {}), ({}, {ORDERS: 104})])
def test_receipts_that_contradict_each_other_tell_nothing(
    trips: Trips, cut_off: dict[TopicPartition, int], boundary: dict[TopicPartition, int]
) -> None:
    """A partition that was cut off and has no boundary, or the other way round."""
    trips.begin("primary", "standby")
    trips.opens(cut_off, boundary)
    trips.begin("standby", "primary")
    assert trips.segments(300, 290) == [[300, None, 290, None, False]]


def test_a_log_that_was_cut_since_is_known_by_nobody(trips: Trips) -> None:
    """It ends before it did when clients came to it."""
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.begin("standby", "primary")
    assert trips.segments(90, 100) == [[90, None, 100, None, False]]
    assert "are shorter than" in trips.write(90, 100)["orders-0"]


def test_a_returned_log_that_lost_its_tail_takes_copies_from_there(trips: Trips) -> None:
    """What was proven at the cut-off is not there any more."""
    planned = trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.begin("standby", "primary")
    trips.found(planned, 98, 98)
    assert trips.segments() == [[0, 104, 0, 98, True], [104, None, 98, None, False]]


def test_a_topic_made_anew_by_a_failback_begins_again(trips: Trips) -> None:
    """It was copied from its beginning, by this run or one before it that did not end."""
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.begin("standby", "primary")
    record_fact(trips.procedure.authority, Step.PREPARE_TOPICS, TopicsToCreate(creates_topics=["orders"]))
    assert trips.segments() == []
    trips.begin("standby", "primary")
    assert trips.segments() == []
    trips.opens({ORDERS: 200}, {ORDERS: 198})
    trips.begin("primary", "standby", {"orders": "id-anew"})
    assert trips.segments() == [[0, 198, 0, 200, True], [198, None, 200, None, False]]


def test_a_topic_that_somebody_made_anew_is_known_by_nobody(trips: Trips) -> None:
    """On the target; on the source it begins again, and whoever acknowledged that knows."""
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.bench.clusters["primary"].topic_ids["orders"] = "id-other"
    trips.begin("standby", "primary")
    assert trips.segments(300, 290) == [[300, None, 290, None, False]]
    trips.opens({ORDERS: 200}, {ORDERS: 196})
    (trips.folder / "segments.parquet").unlink()
    trips.begin("primary", "standby", {"orders": "id-other"})
    assert trips.segments() == []


def test_a_topic_that_was_another_one_at_an_earlier_change_hides_what_came_before(trips: Trips) -> None:
    """Nobody wrote down when it was made anew."""
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.begin("standby", "primary")
    trips.opens({ORDERS: 200}, {ORDERS: 196})
    trips.begin("primary", "standby", {"orders": "id-other"})
    trips.opens({ORDERS: 300}, {ORDERS: 305})
    trips.bench.clusters["primary"].topic_ids["orders"] = "id-other"
    trips.begin("standby", "primary")
    assert trips.segments() == [[305, None, 300, None, False]]


def test_a_topic_that_was_born_since_is_one_copy(trips: Trips) -> None:
    """Beside one that has more segments it has its row, too."""
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.begin("standby", "primary")
    assert trips.segments(topic="born") == []
    positions = pd.DataFrame({"group": [], "topic": [], "partition": [], "position": []}).astype(
        {"topic": object, "partition": "int32", "position": "int64"}
    )
    write_lineage(
        trips.procedure, trips.folder, pd.concat([trips.bounds(9, 9, "born"), trips.bounds(300, 290)]), positions
    )
    rows = pd.read_parquet(trips.folder / "segments.parquet")
    found = rows[["topic", "segment", "source_from", "copied_back"]].values.tolist()
    assert found == [["born", 0, 0, False], ["orders", 0, 0, True], ["orders", 1, 104, False]]


def test_the_journal_is_listed_once_where_nobody_moved(trips: Trips, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first failover pays for one question."""
    trips.begin("primary", "standby")
    asked: list[Any] = []
    entries = trips.procedure.journal.entries
    monkeypatch.setattr(
        trips.procedure.journal, "entries", lambda *args, **kwargs: asked.append(kwargs) or entries(*args, **kwargs)
    )
    trips.write()
    assert asked == [{"step": Step.OPEN_TARGET, "kind": Entry.INTENT}]


def old_syncs(trips: Trips) -> list[list[Any]]:
    """What was written of the old flow's syncs."""
    trips.segments()
    return pd.read_parquet(trips.folder / "syncs_back.parquet")[
        ["topic", "partition", "upstream", "downstream", "sequence"]
    ].values.tolist()


def test_syncs_of_the_old_flow_are_read_where_it_keeps_them(trips: Trips) -> None:
    """On its source, which is the target now; upstream is the target's offset. On its target, if its worker says so."""
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.begin("standby", "primary")
    primary, standby = trips.bench.clusters["primary"], trips.bench.clusters["standby"]
    assert old_syncs(trips) == []
    for cluster, topic, pair in (
        (primary, "mm2-offset-syncs.standby.internal", (40, 44)),
        (standby, "mm2-offset-syncs.primary.internal", (50, 54)),
    ):
        cluster.partitions[topic] = {0: 1}
        cluster.internal[topic] = [encode_offset_sync(OffsetSync("orders", 0, *pair))]
    assert old_syncs(trips) == [["orders", 0, 40, 44, 0]]
    for worker in trips.bench.workers.values():
        worker.settings = {"offset-syncs.topic.location": "target"}
    assert old_syncs(trips) == [["orders", 0, 50, 54, 0]]


def test_syncs_that_both_flows_keep_in_one_topic_tell_nothing(trips: Trips) -> None:
    """The one's upstream is the other one's downstream, and nobody can tell them apart."""
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    trips.begin("standby", "primary")
    trips.bench.workers["primary"].settings = {"offset-syncs.topic.location": "target"}
    cluster, topic = trips.bench.clusters["primary"], "mm2-offset-syncs.standby.internal"
    cluster.partitions[topic] = {0: 1}
    cluster.internal[topic] = [encode_offset_sync(OffsetSync("orders", 0, 40, 44))]
    assert old_syncs(trips) == []


def test_a_translation_gets_them(trips: Trips, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside its bounds; what is not known stands in the journal."""
    trips.begin("primary", "standby")
    trips.opens(None, {ORDERS: 104})
    procedure = trips.begin("standby", "primary")
    monkeypatch.setattr(step, "offset_syncs_of", lambda one: [NO_PAIRS])
    monkeypatch.setattr(step, "bounds_frame", lambda one: trips.bounds(300, 290))
    trips.bench.done(procedure, Step.CHECK_READINESS, isolation="read_uncommitted")
    trips.bench.done(procedure, Step.FORECAST)
    positions = pd.DataFrame({"group": ["g"], "topic": ["orders"], "partition": [0], "position": [3]}).astype(
        {"partition": "int32"}
    )
    TranslateOffsets(task_id="translate_offsets").write_inputs(procedure, trips.folder, positions)
    assert {path.name for path in trips.folder.iterdir()} >= {
        "positions.parquet",
        "bounds.parquet",
        "segments.parquet",
        "syncs_back.parquet",
    }
    note = procedure.journal.last(procedure.id, Step.TRANSLATE_OFFSETS, Entry.NOTE)
    assert note.payload == {
        "older_records_unknown": 1,
        "why": {"orders-0": "which records of primary were on standby when clients left is unknown"},
    }


@pytest.mark.parametrize("assessed", [False, True])
def test_a_translation_without_the_source_gets_them(trips: Trips, assessed: bool) -> None:
    """Made with the assessment or after it; nothing is asked of the lost source, and its end is not needed."""
    trips.begin("primary", "standby")
    trips.opens({ORDERS: 100}, {ORDERS: 104})
    procedure = trips.begin("standby", "primary")
    trips.bench.done(procedure, Step.CONFIRM_SOURCE_LOST, state="lost")
    if assessed:
        trips.bench.done(procedure, Step.ASSESS_DATA_LOSS)
    trips.bench.clusters["standby"].away = True
    trips.bench.workers["standby"].away = True
    positions = pd.DataFrame({"group": ["g"], "topic": ["orders"], "partition": [0], "position": [3]}).astype(
        {"partition": "int32"}
    )
    floors = pd.DataFrame({"topic": [], "partition": [], "source_end": [], "target_end": [], "sampled_at": []})
    pairs = pd.DataFrame({"topic": [], "partition": [], "upstream": [], "downstream": [], "sampled_at": []})
    known = {"flowed_back": True, "samples_missing": False}
    write_translation(procedure, trips.folder, positions, floors, NO_PAIRS, pairs, trips.bounds(None, 290), **known)
    rows = pd.read_parquet(trips.folder / "segments.parquet")
    assert rows[["source_from", "target_from", "copied_back"]].values.tolist() == [[0, 0, True], [104, 100, False]]


#: Records of a round trip by their ids: clients wrote on either side by turns, and MirrorMaker 2 has mirrored two of
#: them twice on each way.
ON_PRIMARY = (*range(100, 113), 111, 112, *range(113, 117))
ON_STANDBY = (100, 101, 102, 101, 102, *range(103, 117))


@pytest.fixture
def third_trip(trips: Trips, without_spark: Any, monkeypatch: pytest.MonkeyPatch) -> Trips:
    """Clients went to standby when primary ended at 10, came back when standby ended at 17, and go there again now."""
    trips.bench.jobs = without_spark(trips.bench)
    for cluster, ids in (("primary", ON_PRIMARY), ("standby", ON_STANDBY)):
        trips.bench.clusters[cluster].records[ORDERS] = {offset: str(one) for offset, one in enumerate(ids)}
    for source, target, cut_off, boundary in (("primary", "standby", 10, 12), ("standby", "primary", 17, 17)):
        trips.begin(source, target)
        trips.opens({ORDERS: cut_off}, {ORDERS: boundary})
    procedure = trips.begin("primary", "standby")
    trips.bench.done(procedure, Step.CHECK_READINESS, isolation="read_uncommitted")
    trips.bench.done(procedure, Step.FORECAST)
    flags = {
        "drained": True,
        "complete": True,
        "other_writer": False,
        "source_compacted": False,
        "target_compacted": False,
        "compare_timestamps": True,
        "recreated": False,
    }
    bounds = trips.bounds(len(ON_PRIMARY), len(ON_STANDBY)).assign(
        target_topic="orders", source_start=pd.array([0], "Int64"), target_start=pd.array([0], "Int64"), **flags
    )
    monkeypatch.setattr(step, "bounds_frame", lambda one: bounds)
    monkeypatch.setattr(step, "offset_syncs_of", lambda one: [NO_SYNCS])
    return trips


NO_SYNCS = NO_PAIRS.astype(
    {"topic": object, "partition": "int32", "upstream": "int64", "downstream": "int64", "sequence": "int64"}
)


def test_the_job_finds_every_position_by_what_was_written(third_trip: Trips) -> None:
    """Each group goes on with the record that it would have read next: in a stretch that was copied there, in one
    that came from there, on the joints, and at the end.
    """
    expected = {0: 0, 2: 4, 5: 7, 10: 12, 12: 13, 13: 13, 14: 14, 15: 15, 16: 16, 17: 17, 18: 18, 19: 19}
    positions = list(expected)
    frame = pd.DataFrame(
        {
            "group": [f"g{p}" for p in positions],
            "topic": "orders",
            "partition": 0,
            "position": positions,
            "position_at": 1,
            "policy": "earliest",
        }
    )
    frame = frame.astype({"partition": "int32", "position": "int64", "position_at": "int64"})
    procedure = third_trip.procedure
    rows, summary = TranslateOffsets(task_id="translate_offsets").translated(
        procedure, third_trip.bench.context(procedure.identity.run_id), frame
    )
    found = dict(zip(rows["position"].tolist(), rows["target_position"].tolist(), strict=True))
    assert found == expected and summary["holes"] == []
    seen = rows.loc[~rows["exact"], ["position", "bound"]].values.tolist()
    assert seen == [[12, 1], [13, 2], [14, 1]], "what the repeats bring again may have been read"
