"""What is known of a flow whose source cannot be asked: the best of what there is, and the names of what there
is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from kafka_dr.actions.loss import last_known_state as last_known
from kafka_dr.actions.loss.last_known_state import (
    LastKnown,
    groups_recently_sampled,
    query_concurrently,
    read_last_known_state,
    with_movement,
)
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.mirror_maker.mirror_records import Checkpoint, OffsetSync, encode_checkpoint, encode_offset_sync
from kafka_dr.domain.recorder_rows import Kind

from tests.support.lost_source import Recorder, held, seen

DEFAULT = {"policy": "default", "separator": "."}
SYNCS, CHECKPOINTS = "mm2-offset-syncs.primary.internal", "primary.checkpoints.internal"


def target_holds(
    bench: Any, syncs: tuple[tuple[int, int], ...] = (), checkpoints: tuple[tuple[str, str, int, int], ...] = ()
) -> None:
    """MirrorMaker 2's topics on the target: syncs of orders-0; group, topic there, partition and source position of
    checkpoints.
    """
    target = bench.clusters["standby"]
    bench.workers["standby"].settings = {"offset-syncs.topic.location": "target"}
    target.internal[SYNCS] = [encode_offset_sync(OffsetSync("orders", 0, u, d)) for u, d in syncs]
    target.internal[CHECKPOINTS] = [
        encode_checkpoint(Checkpoint(group, topic, p, position, 0)) for group, topic, p, position in checkpoints
    ]
    target.partitions |= {SYNCS: {0: 1}, CHECKPOINTS: {0: 1}}


def positions(known: LastKnown) -> list[list[Any]]:
    """Group, topic, partition and position."""
    return known.positions[["group", "topic", "partition", "position"]].values.tolist()


def told(known: LastKnown) -> str:
    """All that is missing."""
    return "; ".join(known.missing)


def test_positions_recorded_are_preferred_to_checkpoints(make_lost: Any, recorder: Recorder) -> None:
    """A checkpoint fills in what the recorder never saw; a position recorded stands, whichever is the higher one."""
    at = recorder.sample(seen(100, 90), held("a", 50), held("b", 60))
    bench = make_lost(groups=[{"pattern": "c", "policy": "fail"}])
    target_holds(
        bench,
        checkpoints=(("a", "orders", 0, 70), ("b", "orders", 0, 40), ("c", "orders", 0, 30), ("a", "orders", 1, 5)),
    )
    known = read_last_known_state(bench.procedure())
    found = positions(known)
    assert found == [["a", "orders", 0, 50], ["a", "orders", 1, 5], ["b", "orders", 0, 60], ["c", "orders", 0, 30]]
    assert known.positions["position_at"].tolist() == [at, 0, at, 0]
    assert known.positions["policy"].tolist() == ["earliest"] * 3 + ["fail"]


def test_where_the_recorder_listed_all_groups_older_checkpoints_say_nothing(make_lost: Any, recorder: Recorder) -> None:
    """They may be of a group that is gone, or of an earlier life of one; what was written since the listing is
    taken.
    """
    read_to = [[f"id-{CHECKPOINTS}", CHECKPOINTS, 0, 3]]
    at = recorder.sample(seen(100, 90), held("anew", 5), groups_read="whole", read_to=read_to)
    bench = make_lost()
    target_holds(
        bench,
        checkpoints=(
            ("gone", "orders", 0, 70),
            ("anew", "orders", 0, 80),
            ("anew", "orders", 1, 80),
            ("young", "orders", 0, 2),
            ("anew", "orders", 2, 1),
        ),
    )
    known = read_last_known_state(bench.procedure())
    assert positions(known) == [["anew", "orders", 0, 5], ["anew", "orders", 2, 1], ["young", "orders", 0, 2]]
    assert known.positions["position_at"].tolist() == [at, 0, 0]


def test_a_checkpoints_topic_made_anew_is_read_whole(make_lost: Any, recorder: Recorder) -> None:
    """Its offsets are others than those that the recorder read."""
    recorder.sample(seen(100, 90), groups_read="whole", read_to=[["id of another one", CHECKPOINTS, 0, 3]])
    bench = make_lost()
    target_holds(bench, checkpoints=(("young", "orders", 0, 2),))
    assert positions(read_last_known_state(bench.procedure())) == [["young", "orders", 0, 2]]


def test_positions_on_topics_that_are_not_mirrored_are_none_of_the_flows(make_lost: Any, recorder: Recorder) -> None:
    """The recorder writes down all that a group holds; a group that reads nothing mirrored is not waited for."""
    rows = [(Kind.GROUP, {"group": group, "members": 2, "state": "Stable"}) for group in "ab"]
    recorder.sample(seen(100, 90), held("a", 50), held("a", 7, "audit"), held("b", 8, "audit"), *rows)
    known = read_last_known_state(make_lost().procedure())
    assert positions(known) == [["a", "orders", 0, 50]] and known.active == {"a"}


def group(name: str, members: int) -> tuple[Kind, dict[str, Any]]:
    """A group's row of a sample."""
    return Kind.GROUP, {"group": name, "members": members, "state": "Stable" if members else "Empty"}


def test_who_may_have_gone_on_since_is_told(make_lost: Any, recorder: Recorder) -> None:
    """A group that had members, one that the recorder never saw, and a position that only a checkpoint states; not
    one that stood still.
    """
    recorder.sample(
        seen(100, 90), held("alive", 50), held("idle", 60), group("alive", 2), group("idle", 0), groups_read="whole"
    )
    bench = make_lost()
    target_holds(bench, checkpoints=(("idle", "orders", 1, 5), ("unseen", "orders", 0, 7)))
    known = read_last_known_state(bench.procedure())
    assert (known.active, known.moving) == ({"alive"}, {"alive", "unseen"})
    rows = with_movement(known)
    told = {(row.group, row.partition): row.may_have_moved for row in rows.itertuples()}
    assert told == {("alive", 0): True, ("idle", 0): False, ("idle", 1): True, ("unseen", 0): True}
    assert rows["may_have_moved"].dtype == bool


@pytest.mark.parametrize("seen_by", ["a sample", "a heartbeat"])
@pytest.mark.parametrize(("ago", "looked"), [(0, {"idle"}), (40_000, {"idle"}), (40_001, set()), (None, set())])
def test_groups_that_nobody_looked_at_any_more_may_have_gone_on(
    make_lost: Any, recorder: Recorder, ago: int | None, looked: set[str], seen_by: str
) -> None:
    """A sample of three in which they did not answer is none to speak of; an hour is."""
    recorder.sample(seen(100, 90), held("idle", 60), group("idle", 0), groups_read="whole")
    bench = make_lost()
    kept = read_last_known_state(bench.procedure()).recorded
    assert kept.groups_at == kept.source_at
    before = None if ago is None else kept.source_at - ago
    old = replace(kept, groups_at=before, source_at=kept.source_at if seen_by == "a sample" else before)
    assert (
        groups_recently_sampled(bench.procedure(), old, kept.source_at if seen_by == "a heartbeat" else None) == looked
    )


def test_syncs_written_since_the_last_sample_are_added(make_lost: Any, recorder: Recorder) -> None:
    """By their place in the topic: none twice."""
    recorder.sample(
        seen(100, 90),
        *(
            (Kind.SYNC, {"topic": "orders", "partition": 0, "upstream": u, "downstream": d, "sequence": s})
            for u, d, s in ((5, 3, 0), (9, 7, 1))
        ),
    )
    bench = make_lost()
    target_holds(bench, syncs=((0, 0), (9, 7), (20, 18)))
    known = read_last_known_state(bench.procedure())
    assert known.syncs[["upstream", "downstream", "sequence"]].values.tolist() == [[5, 3, 0], [9, 7, 1], [20, 18, 2]]


def test_nothing_at_all_is_known_by_name(make_lost: Any) -> None:
    """No recorder, a silent worker, no topic of MirrorMaker 2: no topic, and everything that lacks is named."""
    bench = make_lost(recorded=False)
    bench.workers["standby"].away = True
    known = read_last_known_state(bench.procedure())
    assert (known.topics, known.replicated, known.active) == ({}, {}, frozenset()) and known.positions.empty
    assert known.syncs.empty
    for lacking in (
        "no flight recorder",
        "Connect does not state",
        "the cluster that holds MirrorMaker 2's offset syncs is unknown",
        "no offset sync",
        "neither the recorder nor a checkpoint states a position of any group",
    ):
        assert lacking in told(known)


def test_frames_without_rows_keep_their_types(make_lost: Any) -> None:
    """Written and read back, too."""
    bench = make_lost(recorded=False)
    known, procedure = read_last_known_state(bench.procedure()), bench.procedure()
    wanted = {
        "group": "object",
        "topic": "object",
        "partition": "int32",
        "position": "int64",
        "position_at": "int64",
        "policy": "object",
    }
    assert known.positions.dtypes.astype(str).to_dict() == wanted
    assert (
        procedure.artifacts.load(procedure.artifacts.save("p", known.positions)).dtypes.astype(str).to_dict() == wanted
    )


BROKEN = {
    "no such file system": lambda folder: "nosuch://bucket/archive",
    "a file that is none": lambda folder: f"file://{folder}/archive",
}


@pytest.mark.parametrize("archive", BROKEN.values(), ids=BROKEN)
def test_an_archive_that_cannot_be_read_is_none_that_is_named(
    make_lost: Any, recorder: Recorder, quick_path: Path, archive: Any
) -> None:
    """The plan can still be made, of less."""
    recorder.sample(seen(100, 90))
    for file in (quick_path / "archive").rglob("*.parquet"):
        file.write_bytes(b"torn")
    known = read_last_known_state(make_lost(recorder={"archive": archive(quick_path)}, recorded=False).procedure())
    assert "the archive cannot be read" in told(known) and list(known.topics) == ["orders"]


def test_all_are_asked_at_once(make_lost: Any, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """None goes on before all five were called: near a source that died each may be silent for as long as it is
    waited for.
    """
    recorder.sample(seen(100, 90), answered=False)
    all_called = Barrier(5, timeout=30)
    for name in ("from_archive", "from_connect", "checkpoints_with_origin", "from_target", "newest_heartbeat"):
        monkeypatch.setattr(last_known, name, after(all_called, getattr(last_known, name)))
    bench = make_lost(recorded=False)
    bench.workers["standby"].away = True
    missing, heartbeat_at = query_concurrently(bench.procedure())[::-1][:2]
    assert heartbeat_at is None
    assert [one.split(":")[0] for one in missing] == [
        "there is no flight recorder",
        "Connect does not state up to which offsets it replicated",
        "the cluster that holds MirrorMaker 2's offset syncs is unknown",
    ]


def after(all_called: Barrier, call: Callable[..., Any]) -> Callable[..., Any]:
    """A call that is only made when all others are about to be."""

    def waiting(*args: Any) -> Any:
        all_called.wait()
        return call(*args)

    return waiting


def test_an_archive_without_a_sample_of_the_source_says_so(make_lost: Any, recorder: Recorder) -> None:
    """The recorder was started when the source was gone; what its last sample lacks is named."""
    recorder.sample(answered=False, problems=("the source: gone",))
    known = read_last_known_state(make_lost().procedure())
    assert "holds no sample of the source" in told(known) and "lacks the source: gone" in told(known)


def test_without_a_record_connect_tells_what_is_mirrored(make_lost: Any) -> None:
    """Identity naming gives no topic away; a topic that the target lacks is nobody's. The target knows how many
    partitions there are.
    """
    bench = make_lost(recorded=False)
    bench.clusters["standby"].partitions |= {"orders": {0: 1, 1: 1}, "local": {0: 1}}
    bench.workers["standby"].replicated = {
        TopicPartition("orders", 0): 9,
        TopicPartition("gone", 0): 3,
        TopicPartition("orders", 1): None,
    }
    known = read_last_known_state(bench.procedure())
    assert known.topics == {"orders": ("orders", 2, None)} and known.replicated[TopicPartition("orders", 0)] == 9
    assert len(known.replicated) == 2


def test_under_default_naming_names_tell_what_is_mirrored(make_lost: Any) -> None:
    """Not MirrorMaker 2's own topics, no heartbeats, none of another source, no local one."""
    bench = make_lost(recorded=False, naming=DEFAULT)
    bench.workers["standby"].away = True
    bench.clusters["standby"].partitions |= {
        name: {0: 1}
        for name in (
            "primary.orders",
            "primary.checkpoints.internal",
            "primary.heartbeats",
            "heartbeats",
            "other.orders",
            "mm2-offset-syncs.primary.internal",
        )
    }
    assert read_last_known_state(bench.procedure()).topics == {"orders": ("primary.orders", 1, None)}


def test_what_was_made_since_the_last_sample_is_of_the_flow_too(make_lost: Any, recorder: Recorder) -> None:
    """A topic and a partition that only MirrorMaker 2 speaks of: acknowledged records there are lost as well."""
    recorder.sample(seen(100, 90))
    bench = make_lost()
    bench.clusters["standby"].partitions |= {"orders": {0: 1, 1: 1}, "new": {0: 1}}
    bench.workers["standby"].replicated = {TopicPartition("orders", 1): 4, TopicPartition("new", 0): 3}
    assert read_last_known_state(bench.procedure()).topics == {
        "new": ("new", 1, None),
        "orders": ("orders", 2, "id-orders"),
    }


def test_recorded_topics_are_known_without_the_target_having_them(make_lost: Any, recorder: Recorder) -> None:
    """All of such a topic is lost, which must be said."""
    recorder.sample(seen(100, 90), seen(40, 0, "slow", partition=2))
    bench = make_lost()
    found = read_last_known_state(bench.procedure()).topics
    assert found == {"orders": ("orders", 1, "id-orders"), "slow": ("slow", 3, "id-slow")}


@pytest.mark.parametrize("naming", [{"policy": "identity"}, DEFAULT])
def test_a_topic_that_the_source_had_deleted_is_none_of_the_flows(
    make_lost: Any, recorder: Recorder, naming: dict[str, str]
) -> None:
    """Whoever still speaks of it: Connect, an offset sync, a checkpoint, or the name of its copy."""
    copy = "old" if naming != DEFAULT else "primary.old"
    sync = (Kind.SYNC, {"topic": "old", "partition": 0, "upstream": 1, "downstream": 1, "sequence": 0})
    recorder.sample(seen(100, 90), seen(9, 9, "old", copy), held("a", 50), held("a", 5, "old"), sync)
    recorder.sample((Kind.TOPIC, {"topic": "old", "state": "Gone"}))
    bench = make_lost(naming=naming)
    bench.clusters["standby"].partitions |= {copy: {0: 1}}
    bench.workers["standby"].replicated = {TopicPartition("old", 0): 8}
    target_holds(bench, syncs=((5, 5),), checkpoints=(("b", copy, 0, 5),))
    known = read_last_known_state(bench.procedure())
    assert list(known.topics) == ["orders"] and known.gone == ("old",) and positions(known) == [["a", "orders", 0, 50]]


def test_nothing_of_the_source_is_asked(make_lost: Any, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a hook for it is made."""
    recorder.sample(seen(100, 90), held("a", 50))
    bench = make_lost()
    monkeypatch.delitem(bench.clusters, "primary")
    assert positions(read_last_known_state(bench.procedure()))


@pytest.mark.parametrize(
    ("recorded", "naming", "found"),
    [
        (False, {"policy": "identity"}, ["empty", "orders"]),
        (False, DEFAULT, ["orders"]),
        (True, {"policy": "identity"}, ["orders"]),
    ],
)
def test_an_empty_copy_moves_though_nobody_speaks_of_it(
    recorded: bool, naming: dict[str, str], found: list[str], make_lost: Any, recorder: Recorder
) -> None:
    """Under one name on both sides and without a sample of the source, by the flow's filter alone; not what that
    leaves out. It is said.
    """
    remote = "primary.orders" if naming == DEFAULT else "orders"
    if recorded:
        recorder.sample(seen(100, 90))
    bench = make_lost(recorded=recorded, naming=naming)
    bench.workers["standby"].settings = {
        "offset-syncs.topic.location": "target",
        "topics": "orders|empty|left",
        "topics.exclude": "left",
    }
    bench.workers["standby"].replicated = {TopicPartition("orders", 0): 70}
    bench.clusters["standby"].partitions |= {remote: {0: 90}, "empty": {0: 0, 1: 0}, "left": {0: 5}, "own": {0: 5}}
    known = read_last_known_state(bench.procedure())
    assert sorted(known.topics) == found
    assert ("1 topics count as mirrored only because the flow's filter selects them: empty" in told(known)) is (
        "empty" in found
    )
    assert known.topics.get("empty", ("empty", 2, None)) == ("empty", 2, None)
