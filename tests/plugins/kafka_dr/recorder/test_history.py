"""What the archive says of a flow: the newest of everything, nothing of a log that is gone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka_dr.domain.recorder_rows import NONE_KEPT, Kind, RecorderRows, RowPlace
from kafka_dr.hooks.archive import Archive
from kafka_dr.recorder.history import Recorded, last_known, read_samples
from kafka_dr.recorder.loop import SAMPLES, SCHEMA

NOON = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


class Sample(RecorderRows):
    """A sample some seconds after noon."""

    def __init__(
        self,
        second: int,
        answered: bool = True,
        problems: tuple[str, ...] = (),
        groups_read: str | None = "changed",
        **told: Any,
    ) -> None:
        super().__init__(int((NOON + timedelta(seconds=second)).timestamp() * 1000))
        self.add(
            Kind.SAMPLE,
            details=json.dumps(
                {"whole": False, "source_answered": answered, "problems": problems, "groups_read": groups_read, **told}
            ),
        )

    def ends(self, source: int | None, target: int | None, partition: int = 0, **more: Any) -> Sample:
        """A partition's ends."""
        known = {"topic_id": "a", "target_topic_id": "b", "source_start": 0, "target_start": 0, "replicated": 3, **more}
        ends = {"source_end": source, "target_end": target, **known}
        self.add(Kind.PARTITION, topic="orders", partition=partition, target_topic="orders", **ends)
        return self

    def held(self, group: str, position: int | None, partition: int = 0) -> Sample:
        """A group's position; None is one that it has no more."""
        self.add(Kind.POSITION, group=group, topic="orders", partition=partition, position=position)
        return self

    def group(self, name: str, state: str = "Stable") -> Sample:
        """A group's state."""
        self.add(Kind.GROUP, group=name, state=state, members=None if state == "Gone" else 1)
        return self

    def table(self) -> pa.Table:
        """As it is kept."""
        return pa.table(self.columns, SCHEMA)


def at(second: int) -> int:
    """Milliseconds of a sample."""
    return int((NOON + timedelta(seconds=second)).timestamp() * 1000)


def known(*samples: Sample) -> Recorded:
    """What samples say."""
    return read_samples([sample.table() for sample in samples])


def test_a_row_stands_until_another_one_is_written() -> None:
    """A partition at rest was seen as long as the source answered; what came after it went silent is not its end."""
    found = known(
        Sample(0).ends(10, 8), Sample(10), Sample(20, answered=False, problems=("the source: gone",)).ends(None, 9)
    )
    assert found.partitions[["source_end", "sampled_at"]].values.tolist() == [[10, at(10)]]
    assert found.floors[["source_end", "target_end", "sampled_at"]].values.tolist() == [[10, 8, at(0)], [10, 8, at(10)]]
    assert (found.last_at, found.source_at, found.problems) == (at(20), at(10), ("the source: gone",))


def positions(found: Recorded) -> list[list[Any]]:
    """Group, partition and position, sorted."""
    return sorted(found.positions[["group", "partition", "position"]].values.tolist())


def test_positions_are_the_newest_of_groups_that_are_there() -> None:
    """A deleted group has none."""
    first, second, third = Sample(0), Sample(10), Sample(20)
    first.held("a", 5).held("b", 6).group("b")
    second.held("a", 7).group("b", "Gone")
    third.held("c", 1)
    found = known(first, second, third)
    assert found.positions[["group", "position", "position_at"]].values.tolist() == [["a", 7, at(10)], ["c", 1, at(20)]]
    assert found.groups.empty and found.groups_at is None


def test_positions_stand_until_groups_were_last_read() -> None:
    """What did not differ was seen again then; when the groups did not answer it was not."""
    first = Sample(0, groups_read="whole", read_to=[["id", "checkpoints", 0, 4]]).held("a", 5).held("b", 6)
    second = Sample(10, read_to=[["id", "checkpoints", 0, 7]]).held("a", 7)
    found = known(
        first,
        second,
        Sample(20, groups_read=None, read_to=[["id", "checkpoints", 0, 9]]),
        Sample(30, answered=False, groups_read=None),
    )
    assert found.positions[["group", "position", "position_at"]].values.tolist() == [["b", 6, at(10)], ["a", 7, at(10)]]
    assert (found.groups_at, found.read_to) == (at(10), {RowPlace("id", "checkpoints", 0): 7})


def test_of_a_group_that_came_back_no_earlier_position_counts() -> None:
    """Deleted and made anew under its name, it would be placed past what it never read."""
    found = known(
        Sample(0, groups_read="whole").held("a", 5).held("a", 50, 1).group("a"),
        Sample(10).group("a", "Gone"),
        Sample(20).held("a", 2).group("a"),
    )
    assert positions(found) == [["a", 0, 2]] and found.groups["group"].tolist() == ["a"]


def test_a_position_that_a_group_has_no_more_is_none() -> None:
    """Nobody saw that it was deleted and made anew in between; and it may commit there again."""
    first, second = (
        Sample(0, groups_read="whole").held("a", 5).held("a", 50, 1),
        Sample(10).held("a", 2).held("a", None, 1),
    )
    assert positions(known(first, second)) == [["a", 0, 2]]
    assert positions(known(first, second, Sample(20).held("a", 3, 1))) == [["a", 0, 2], ["a", 1, 3]]


def test_what_a_whole_listing_lacks_is_gone() -> None:
    """Deleted while no recorder ran, as a group or in part."""
    first = Sample(0, groups_read="whole").held("a", 5).held("a", 50, 1).held("b", 6).group("a").group("b")
    found = known(first, Sample(3600, groups_read="whole").held("a", 2).group("a"), Sample(3610).held("c", 1))
    assert positions(found) == [["a", 0, 2], ["c", 0, 1]] and found.groups["group"].tolist() == ["a"]


@pytest.mark.parametrize("anew", [{"topic_id": "new"}, {"target_topic_id": "new"}])
def test_of_a_topic_made_anew_only_what_came_after_counts(anew: dict[str, str]) -> None:
    """Syncs and pairs also of the sample that saw it first; positions only where the source's topic changed."""
    before, turn, after = Sample(0).ends(100, 90), Sample(10).ends(4, 95, **anew), Sample(20).ends(6, 97, **anew)
    for number, sample in enumerate((before, turn, after)):
        sample.add(Kind.SYNC, topic="orders", partition=0, upstream=number, downstream=number, sequence=number)
        sample.add(Kind.PAIR, topic="orders", partition=0, upstream=number, downstream=number, source_end=9, records=1)
    before.add(Kind.POSITION, group="g", topic="orders", partition=0, position=50)
    found = known(before, turn, after)
    assert found.floors["source_end"].tolist() == [4, 6]
    assert (found.syncs["sequence"].tolist(), found.pairs["upstream"].tolist()) == ([2], [2])
    assert len(found.positions) == ("target_topic_id" in anew)
    # What the older copy held went with it, whatever Connect keeps.
    assert found.recreated == (("orders",) if "target_topic_id" in anew else ()) and known(before).recreated == ()


def test_of_a_topic_that_the_source_deleted_nothing_counts() -> None:
    """Its ends, positions, pairs and syncs are dropped; other topics' and those of one that came back stay."""
    before, gone = Sample(0).ends(100, 90), Sample(10)
    before.add(Kind.PARTITION, topic="pays", partition=0, target_topic="pays", source_end=5, target_end=5)
    before.add(Kind.POSITION, group="g", topic="orders", partition=0, position=50)
    before.add(Kind.POSITION, group="g", topic="pays", partition=0, position=3)
    before.add(Kind.SYNC, topic="orders", partition=0, upstream=1, downstream=1, sequence=0)
    before.add(Kind.PAIR, topic="orders", partition=0, upstream=1, downstream=1, source_end=9, records=1)
    gone.add(Kind.TOPIC, topic="orders", state="Gone")
    found = known(before, gone, Sample(20))
    assert found.gone == ("orders",)
    assert found.partitions["topic"].tolist() == ["pays"] == found.positions["topic"].tolist() and found.syncs.empty
    assert found.pairs.empty
    assert set(found.floors["topic"]) == {"pays"} and found.source_at == at(20)
    back = known(before, gone, Sample(20).ends(100, 90))
    assert back.gone == () and sorted(back.partitions["topic"]) == ["orders", "pays"] and len(back.positions) == 2
    assert known(before).gone == ()


def test_a_topic_whose_id_could_not_be_read_is_the_same() -> None:
    """No id is no other id."""
    found = known(
        Sample(0).ends(10, 8), Sample(10, answered=False).ends(None, 8, topic_id=None), Sample(20).ends(12, 8)
    )
    assert found.floors["source_end"].tolist() == [10, 12]


def test_the_last_replicated_offset_stands_while_connect_is_silent() -> None:
    """A recorder that was started again has not been told it; that Connect keeps none is another thing, and said."""
    samples = [
        Sample(0).ends(10, 8, replicated=5),
        Sample(10).ends(11, 8, replicated=None),
        Sample(20).ends(12, 9, replicated=7),
    ]
    assert known(*samples).floors["replicated"].tolist() == [5, 5, 7]
    assert known(*samples[:2]).partitions["replicated"].tolist() == [5]
    deleted = known(samples[0], Sample(10).ends(11, 8, replicated=NONE_KEPT), Sample(20).ends(12, 8, replicated=None))
    assert deleted.floors["replicated"].tolist() == [5, -1, -1]
    assert known(Sample(0).ends(10, 8, replicated=None)).floors["replicated"].isna().all()
    other = known(Sample(0).ends(10, 8, replicated=5).ends(10, 8, partition=1, replicated=None))
    assert other.floors["replicated"].dropna().tolist() == [5]


@pytest.mark.parametrize(
    ("states", "kept"),
    [
        ((False, False, False), [10, 11, 12]),
        ((None, None, None), [10, 11, 12]),
        # Records that it mirrored back may have their originals below the ends of earlier samples too: clients wrote
        # them before it was resumed.
        ((False, True, False), [12]),
        ((True, False, False), [11, 12]),
        ((False, False, True), []),
        # It does not answer: it is as it was.
        ((True, None, False), [12]),
        ((False, None, None), [10, 11, 12]),
    ],
)
def test_no_floor_stands_from_before_the_other_flow_stood_still(
    states: tuple[bool | None, ...], kept: list[int]
) -> None:
    """What it mirrors into the source came from the target, where it lies lower."""
    found = known(*(Sample(10 * n, flows_back=state).ends(10 + n, 8) for n, state in enumerate(states)))
    assert found.floors["source_end"].tolist() == kept and found.flowed_back is (True in states or False not in states)
    assert found.partitions["source_end"].tolist() == [12]


def test_what_did_not_change_since_the_other_flow_stood_still_is_a_floor() -> None:
    """Its row is older."""
    found = known(Sample(0, flows_back=True).ends(10, 8), Sample(10, flows_back=False), Sample(20, flows_back=False))
    assert found.floors[["source_end", "target_end", "sampled_at"]].values.tolist() == [[10, 8, at(20)]]


def test_ends_of_which_one_was_unknown_last_were_not_seen_again() -> None:
    """The target was silent when the source last answered."""
    found = known(Sample(0).ends(10, 8), Sample(10).ends(15, None))
    assert found.floors[["source_end", "sampled_at"]].values.tolist() == [[10, at(0)]]


def test_a_partition_without_leader_was_last_seen_when_its_end_was_written() -> None:
    """The source answered later, but nobody could read this partition: its end may have grown in between."""
    found = known(
        Sample(0).ends(10, 8).ends(5, 5, partition=1), Sample(10).ends(None, 8, partition=1), Sample(20)
    ).partitions.set_index("partition")
    assert found[["source_end", "sampled_at"]].to_dict("index") == {
        0: {"source_end": 10, "sampled_at": at(20)},
        1: {"source_end": 5, "sampled_at": at(0)},
    }


def test_hours_are_read_back_to_an_end_of_every_partition(tmp_path: Path) -> None:
    """A partition may have been without leader for hours."""
    archive = Archive(f"file://{tmp_path}", "flow")
    keep(archive, 0, Sample(0, groups_read="whole").ends(10, 8).ends(5, 5, partition=1))
    for hour in range(1, 5):
        sample = Sample(hour * 3600, groups_read="whole").ends(10 + hour, 8)
        keep(archive, hour, sample.ends(None, 5, partition=1))
    found = last_known(archive).partitions.set_index("partition")
    assert found["source_end"].to_dict() == {0: 14, 1: 5} and found.loc[1, "sampled_at"] == at(0)


def test_stretches_are_where_every_offset_held_a_record() -> None:
    """By the number of records between a pair and the source's end."""
    sample = Sample(0)
    for upstream, records in ((10, 9), (40, 8)):
        pair = {"upstream": upstream, "downstream": 1, "source_end": upstream + 10, "records": records}
        sample.add(Kind.PAIR, topic="orders", partition=0, **pair)
    assert known(sample).stretches.values.tolist() == [["orders", 0, 10, 20, 1]]


def test_an_empty_archive_knows_nothing(tmp_path: Path) -> None:
    """Frames without rows, and no times."""
    found = last_known(Archive(f"file://{tmp_path}", "flow"))
    for name in "partitions floors syncs pairs positions groups stretches".split():
        assert getattr(found, name).empty, name
    seen = (found.last_at, found.source_at, found.problems, found.groups_at, found.read_to)
    assert seen == (None, None, (), None, {})


def keep(archive: Archive, hour: int, sample: Sample) -> None:
    """In the archive, in an hour after noon."""
    archive.write(SAMPLES, sample.table(), NOON + timedelta(hours=hour))


@pytest.mark.parametrize(("position", "hours"), [(950, 2), (350, 4), (0, 2), (3, 5)])
def test_hours_are_read_back_as_far_as_positions_reach(tmp_path: Path, position: int, hours: int) -> None:
    """At least two, until a sample lies below every position that is not a log's beginning."""
    archive = Archive(f"file://{tmp_path}", "flow")
    for hour in range(5):
        keep(
            archive,
            hour,
            Sample(hour * 3600, groups_read="whole").ends(200 * hour + 100, 200 * hour + 90).held("g", position),
        )
    assert len(last_known(archive).floors) == hours


def test_too_many_rows_end_the_reading(tmp_path: Path) -> None:
    """Then positions below are without a floor."""
    archive = Archive(f"file://{tmp_path}", "flow")
    for hour in range(4):
        keep(archive, hour, Sample(hour * 3600, groups_read="whole").ends(hour + 100, 90).held("g", 5))
    assert len(last_known(archive, most_rows=5).floors) == 2


def test_hours_are_read_back_to_a_whole_listing_of_groups(tmp_path: Path) -> None:
    """Groups were not read at the hours' beginning: what did not change since stands further back."""
    archive = Archive(f"file://{tmp_path}", "flow")
    keep(archive, 0, Sample(0, groups_read="whole").ends(9, 9).held("before", 1))
    keep(archive, 1, Sample(3600, groups_read="whole").ends(9, 9).held("quiet", 9).held("busy", 8))
    for hour in (2, 3, 4):
        keep(archive, hour, Sample(hour * 3600, groups_read=None).ends(9, 9))
    keep(archive, 4, Sample(4 * 3600 + 10).held("busy", 9))
    assert positions(last_known(archive)) == [["busy", 0, 9], ["quiet", 0, 9]]


def test_of_millions_of_rows_of_positions_the_newest_are_kept(tmp_path: Path) -> None:
    """In any order of an hour's files; the limit of rows is for what is left and ends no reading."""
    archive = Archive(f"file://{tmp_path}", "flow")
    keep(archive, 0, Sample(0, groups_read="whole").ends(100, 90).held("quiet", 1))
    for second in (3630, 3610, 3620):
        keep(archive, 1, Sample(second).held("a", second).held("b", 9999 - second))
    keep(archive, 2, Sample(7200).held("b", 50))
    found = last_known(archive, most_rows=9)
    assert positions(found) == [["a", 0, 3630], ["b", 0, 50], ["quiet", 0, 1]] and found.groups_at == at(7200)


@pytest.mark.parametrize(("silent", "oldest"), [([], 3), ([3], 2), ([3, 2], 1)])
def test_hours_without_the_source_are_passed_over(tmp_path: Path, silent: list[int], oldest: int) -> None:
    """Reading goes on behind them, up to the hour that lacks the position's partition: then that was not there yet."""
    archive = Archive(f"file://{tmp_path}", "flow")
    for hour in range(6):
        sample = Sample(hour * 3600, answered=hour not in silent, groups_read=None if hour in silent else "whole")
        if hour not in silent:
            sample.ends(9, 9, partition=1)
        if hour > 3:
            sample.ends(200 * hour, 200 * hour).held("g", 3)
        keep(archive, hour, sample)
    assert last_known(archive).floors["sampled_at"].min() == at(oldest * 3600)
