"""What a returned cluster holds that was never replicated: equal to the truth, in doubt rather more."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.logs.samples import Floors
from kafka_dr_spark.stranded.comparison import longest_run
from kafka_dr_spark.stranded.search import Returned, StrandedRecords, stranded_of
from kafka_dr_spark.translation.task import drive_searches

from tests.spark.log_model import Cell, World, kept_at_most, make_world
from tests.spark.mock_clusters import bounds_row
from tests.support.examples import examples

#: Numbers of records that were written on the returned cluster after it had lost its tail.
REWRITTEN = 1_000
KINDS = st.sampled_from(
    ["plain", "plain", "recorded", "compaction", "retention", "recorded retention", "tail_lost", "hole"]
)


def tail_lost(dice: Random, world: World) -> None:
    """The source comes back with a shorter log, and takes other records there."""
    kept = dice.randint(0, world.bounds.cut_off)
    size = kept + dice.choice([0, 1, 5])
    world.source = [c for c in world.source if c.offset < kept] + [
        Cell(o, REWRITTEN + o, REWRITTEN + o) for o in range(kept, size)
    ]
    world.bounds = replace(world.bounds, cut_off=size)


def hole(dice: Random, world: World) -> None:
    """Leave some records in the middle unmirrored, as by tolerated errors or a log that had fallen."""
    first = dice.randint(0, world.bounds.cut_off)
    skipped = range(first, first + dice.choice([1, 2, 5]))
    world.target = [c for c in world.target if c.record not in skipped]
    world.syncs = [(u, d) for u, d in world.syncs if u not in skipped]
    world.mirrored -= frozenset(skipped)
    # What was kept as replicated speaks of records that are there, and a sample of what was mirrored in their order.
    world.floors = []


def returned_world(kind: str, alphabet: int, seed: int) -> tuple[World, Returned]:
    """Two logs after a failover whose source came back, and what is known of them beside offset syncs and samples."""
    dice = Random(seed)
    shape = {
        "compaction": kind == "compaction",
        "retention": "retention" in kind,
        "recorded": kind in ("recorded", "recorded retention", "hole") or (kind == "tail_lost" and dice.random() < 0.5),
    }
    world = make_world(dice.randint(0, 40), dice, alphabet=alphabet, drained=False, **shape)
    most = (
        kept_at_most(world, world.bounds.boundary)
        if kind not in ("compaction", "retention", "recorded retention", "hole")
        else -1
    )
    drawn = dice.choice([-1, most, dice.randint(-1, max(most, -1))])
    kept = max((c.offset for c in world.source if c.record is not None and c.offset <= drawn), default=None)
    if kind in ("tail_lost", "hole"):
        {"tail_lost": tail_lost, "hole": hole}[kind](dice, world)
    return world, Returned("t", 0, 0, 0, None, kept, world.bounds.cut_off, world.bounds.boundary)


def found(world: World, known: Returned, whole: bool = False, **limits: object) -> StrandedRecords:
    """What is told of a world."""
    (told,) = drive_searches(
        [stranded_of(world.case(**limits), known, whole)], lambda windows: [world.records(w) for w in windows]
    )
    return told


def listed(world: World, told: StrandedRecords) -> list[Cell]:
    """The records that are told to be stranded."""
    missing = set(told.missing.tolist())
    return [c for c in world.source if c.record is not None and (c.offset >= told.from_offset or c.offset in missing)]


def never_mirrored(world: World) -> list[Cell]:
    """The truth, by hidden ids."""
    return [c for c in world.source if c.record is not None and c.record not in world.mirrored]


@examples(6000)
@given(KINDS, st.sampled_from([1000, 1000, 1000, 20, 0]), st.integers(0, 2**40))
def test_nothing_stranded_is_forgotten_and_what_is_exact_is_equal(kind: str, limit: int, seed: int) -> None:
    """Whatever was repeated, cleaned, deleted by retention, skipped, or lost at the source's end."""
    world, known = returned_world(kind, 0, seed)
    told = found(world, known, content_limit=limit)
    truth, stranded = never_mirrored(world), listed(world, told)
    if kind != "hole" or limit == 1000:
        assert {c.offset for c in truth} <= {c.offset for c in stranded}, (told, world)
    if told.exact:
        assert truth == stranded, (told, world)
        assert told.frontier == min([told.from_offset, *(c.offset for c in truth)])


@examples(6000)
@given(st.sampled_from(["plain", "recorded", "tail_lost"]), st.sampled_from([1, 2, 3]), st.integers(0, 2**40))
def test_of_records_that_are_alike_as_many_are_on_one_side_as_on_both(kind: str, alphabet: int, seed: int) -> None:
    """Each returned record has one of its own on the other cluster, or is listed, exactly where that is known."""
    world, known = returned_world(kind, alphabet, seed)
    told = found(world, known)
    stranded, truth = listed(world, told), never_mirrored(world)
    here, there = (Counter(c.content for c in log if c.record is not None) for log in (world.source, world.target))
    assert not (here - there) - Counter(c.content for c in stranded), (told, world)
    if told.exact and kind != "tail_lost":
        assert truth == stranded, (told, world)


def mirrored_once(kind: str, alphabet: int, seed: int) -> tuple[World, Returned]:
    """Make two logs without repeats on the target, so that each like record has one place."""
    dice = Random(seed)
    while True:
        world = make_world(
            dice.randint(0, 40),
            dice,
            alphabet=alphabet,
            drained=False,
            retention=kind == "retention",
            recorded=kind != "decided",
        )
        if len(world.runs) == 1:
            return world, Returned("t", 0, 0, 0, None, None, world.bounds.cut_off, world.bounds.boundary)


@examples(1500)
@given(st.sampled_from([0, 1, 2, 3]), st.integers(0, 2**40))
def test_copies_of_like_records_that_retention_took_from_the_source_vouch_for_no_other(
    alphabet: int, seed: int
) -> None:
    """Behind a sample there are only copies of what the source had from there on."""
    world, known = mirrored_once("retention", alphabet, seed)
    truth = {c.offset for c in never_mirrored(world)}
    hypothesis.assume(
        not alphabet
        or any(end <= min(truth, default=0) and kept + 1 >= world.bounds.source_start for end, _, kept in world.floors)
    )
    told = found(world, known)
    assert truth <= {c.offset for c in listed(world, told)}, (told, world)


@examples(6000)
@given(st.sampled_from(["decided", "recorded"]), st.sampled_from([0, 1, 2, 3]), st.booleans(), st.integers(0, 2**40))
def test_copies_of_like_records_that_were_decided_on_before_vouch_for_no_other(
    kind: str, alphabet: int, whole: bool, seed: int
) -> None:
    """None of those is told again, and none of the others is forgotten."""
    world, known = mirrored_once(kind, alphabet, seed)
    known = replace(known, decided_to=Random(seed).randint(0, world.bounds.cut_off))
    told = found(world, known, whole)
    truth, stranded = (
        [c.offset for c in some if c.offset >= known.decided_to]
        for some in (never_mirrored(world), listed(world, told))
    )
    assert set(truth) <= set(stranded) and len(stranded) == len(listed(world, told)), (told, world)
    assert truth == stranded or not told.exact, (told, world)


@pytest.mark.parametrize(("kind", "share"), [("plain", 0.99), ("recorded", 0.99), ("tail_lost", 0.99), ("hole", 0.99)])
def test_what_is_told_is_mostly_exact(kind: str, share: float) -> None:
    """Of contents that never recur, as records with a time and a key mostly are."""
    exact = sum(found(*returned_world(kind, 0, seed)).exact for seed in range(500))
    assert exact >= share * 500


@pytest.mark.parametrize("kind", ["compaction", "retention", "recorded retention"])
def test_cleaned_logs_mostly_show_the_truth_too(kind: str) -> None:
    """Though nobody can say so: copies that were cleaned away are taken for records that never came."""
    right = 0
    for seed in range(500):
        world, known = returned_world(kind, 0, seed)
        right += never_mirrored(world) == listed(world, found(world, known))
    assert right >= 400, right


def plain_world(source: list[int], target: list[int], **bounds: object) -> World:
    """Two logs without gaps, given by the contents of their records."""
    here, there = ([Cell(offset, offset, content) for offset, content in enumerate(log)] for log in (source, target))
    return World(
        here, there, [], LogBounds(**BOUNDS | {"cut_off": len(source), "boundary": len(target)} | bounds), False
    )


BOUNDS = bounds_row("t", 0, 0, 0, drained=False, complete=False)


def known(world: World, **changes: object) -> Returned:
    """What is known beside the bounds: nothing, unless said."""
    return replace(Returned("t", 0, 0, 0, None, None, world.bounds.cut_off, world.bounds.boundary), **changes)


def told_of(
    source: list[int], target: list[int], bounds: dict[str, object] | None = None, whole: bool = False, **facts: object
) -> tuple[int, list[int]]:
    """From where on all is stranded, and what below."""
    world = plain_world(source, target, **bounds or {})
    told = found(world, known(world, **facts), whole)
    return told.from_offset, told.missing.tolist()


def test_records_that_are_all_alike_are_counted() -> None:
    """As many as the target has were replicated, in their order; repeats among them cannot be told."""
    assert told_of([7] * 10, [7] * 6) == (6, [])
    assert told_of([1, 2, 7, 7, 7, 3], [1, 2, 7, 7, 1, 2, 7]) == (4, []), "the longest run behind the last that is sure"
    assert told_of([1, 2, 1, 2, 1, 2], [1, 2, 1, 2], replicated=3) == (4, []), (
        "as many lie below one on the target as on the source"
    )
    assert told_of([1, 2, 3, 1, 4], [1, 1]) == (1, [])


def test_a_tail_that_was_lost_and_written_anew_is_stranded_though_connect_kept_more() -> None:
    """What Connect kept counts only for the lost tail, and not where the log is shorter."""
    before, anew = list(range(20)), [*range(15), *range(100, 110)]
    assert told_of(anew, before, replicated=19) == (15, [])
    assert told_of(anew[:10], [], {"boundary": 20, "target_start": 20}, replicated=19) == (0, [])
    assert told_of(before, [], {"boundary": 20, "target_start": 20}, replicated=15) == (16, [])


def test_a_tail_that_was_lost_below_the_newest_sample_is_found_by_all_of_both_logs() -> None:
    """Behind the sample the target holds what the source does not: then more than that may be other records."""
    world = plain_world([*range(10), *range(100, 115)], list(range(20)))
    case = replace(world.case(), floors=Floors(*(np.array([one]) for one in (16, 16, 15, 1))))
    (told,) = drive_searches(
        [stranded_of(case, known(world, replicated=17))], lambda windows: [world.records(w) for w in windows]
    )
    assert (told.from_offset, told.missing.tolist(), told.lacking) == (10, [], 10)


def test_a_sample_behind_the_last_replicated_record_shows_nothing_of_the_source() -> None:
    """Nothing came to the target since: only before that sample are the source's records known."""
    world = plain_world(list(range(100, 125)), list(range(18)))
    case = replace(world.case(), floors=Floors(*(np.array([one]) for one in (18, 18, 17, 1))))
    (told,) = drive_searches(
        [stranded_of(case, known(world, replicated=17))], lambda windows: [world.records(w) for w in windows]
    )
    assert (told.from_offset, told.lacking) == (0, 18)


def test_a_log_that_fell_is_compared_whole() -> None:
    """Records in the middle may have been taken in the place of others, and never mirrored."""
    world = plain_world(list(range(20)), [*range(3), *range(5, 20)])
    for fell, missing in ((True, [3, 4]), (False, [])):
        case = replace(world.case(), floors=Floors(*(np.array([one]) for one in (16, 14, 15, 1)), fell=fell))
        (told,) = drive_searches(
            [stranded_of(case, known(world, replicated=19))], lambda windows: [world.records(w) for w in windows]
        )
        assert (told.from_offset, told.missing.tolist(), case.read["source"]) == (20, missing, 20 if fell else 4)


def test_a_value_that_a_cleaner_may_have_taken_is_not_stranded() -> None:
    """Older values of a key; the newest only if the key was written on the target since."""
    world = plain_world([1, 2, 3, 4], [3, 9], target_compacted=True, boundary=1)
    world.source = [replace(c, key=key) for c, key in zip(world.source, (5, 6, 7, 8))]
    world.target = [replace(c, key=key) for c, key in zip(world.target, (7, 6))]
    told = found(world, known(world, target_end=2))
    assert (told.from_offset, told.missing.tolist()) == (3, [0]), "key 5 is nowhere; key 6 was written since"
    assert found(world, known(world, target_end=2), whole=True).older.tolist() == [1]
    world.source[0] = replace(world.source[0], tombstone=True)
    assert not len(found(world, known(world, target_end=2)).missing)


def test_what_a_cleaner_may_have_taken_from_the_source_is_not_lacking() -> None:
    """An older value of a key that the source holds newer is not lacking; an absent key is."""
    world = plain_world([1, 2], [1, 3, 4, 2], source_compacted=True)
    world.source = [replace(c, key=key) for c, key in zip(world.source, (5, 6))]
    world.target = [replace(c, key=key) for c, key in zip(world.target, (5, 6, 7, 6))]
    assert found(world, known(world)).lacking == 1
    assert found(world, known(world, replicated=9)).lacking == 1
    world.target = world.target[:3]
    assert found(world, known(world, replicated=9)).lacking == 2, "the source lost its tail"


def test_a_topic_whose_records_are_all_alike_is_told_by_its_older_copies_too() -> None:
    """What an earlier failback dealt with was mirrored before: its copies are not those of what clients wrote since."""
    source, target = [7] * 663, [7] * 608
    assert told_of(source, target, decided_to=585) == (608, [])
    assert told_of(source, target, {"source_start": 585}) == (585, []), (
        "retention took the others, and nobody recorded where their copies end"
    )
    world = plain_world(source, target, source_start=585)
    for sample, begin in (((585, 585, 584), 586), ((585, 585, 400), 585), ((590, 590, 589), 585)):
        case = replace(world.case(), floors=Floors(*(np.array([one]) for one in (*sample, 1))))
        (told,) = drive_searches([stranded_of(case, known(world))], lambda windows: [world.records(w) for w in windows])
        assert (told.from_offset, told.missing.tolist()) == (begin, []), sample


def test_a_record_like_one_that_the_source_deleted_is_not_taken_for_replicated() -> None:
    """Its copy would lie behind the copies of the records before it."""
    assert told_of([0, 7, 8, 9, 1], [1, 7, 8], {"source_start": 1}) == (3, [])


def test_what_is_too_much_to_compare_begins_behind_the_newest_sync_that_both_logs_bear_out() -> None:
    """Also where Connect kept more; and where it kept less, there."""
    for syncs, kept, begin in (([(5, 5), (9, 9), (12, 11)], 15, 10), ([(9, 9)], 7, 8), ([], 15, 0)):
        world = plain_world(list(range(20)), list(range(18)))
        world.syncs = syncs
        told = found(world, known(world, replicated=kept), content_limit=5)
        assert (told.from_offset, told.exact) == (begin, False)


def test_runs_are_found_wherever_they_begin() -> None:
    """The longest of several runs, up to either end, is the one that comparing one by one finds."""
    assert longest_run(np.array([1, 2, 3]), np.array([1, 2, 9, 1, 2, 3]), np.array([0, 3])) == 3
    assert longest_run(np.array([1, 2]), np.array([1, 2, 3]), np.array([1, 3])) == 0
    dice = np.random.default_rng(5)
    for _ in range(300):
        wanted, there = (dice.integers(0, 2, dice.integers(0, 12)) for _ in range(2))
        begins = np.flatnonzero(dice.integers(0, 2, len(there) + 1))
        runs = [
            next((n for n, (a, b) in enumerate(zip(wanted, there[at:])) if a != b), min(len(wanted), len(there) - at))
            for at in begins
        ]
        assert longest_run(wanted, there, begins) == max(runs, default=0)


def test_of_copies_that_flowed_back_only_those_that_their_topic_holds_no_more_are_told() -> None:
    """Retention or a cleaner took them; what was not copied yet is not lacking; too many are listed whole."""
    world = plain_world([0, 1, 2, 3, 3], [2, 3, 4, 5])
    told = found(world, known(world, copied_back=True))
    assert (told.older.tolist(), told.missing.tolist(), told.lacking, told.from_offset) == ([0, 1, 3], [], 0, 5), (
        "of two that are alike one is left over"
    )
    assert [*found(world, known(world, copied_back=True), content_limit=4).older] == [0, 1, 2, 3, 4]
    gone = plain_world([0, 1], [], target_start=None, boundary=None)
    assert found(gone, known(gone, copied_back=True)).older.tolist() == [0, 1]


def test_copies_behind_what_clients_wrote_are_looked_through_where_the_log_will_be_deleted() -> None:
    """The source held 0 to 2, the last stranded; 5 to 7 were copied back, and retention took 0 and 5."""
    world = plain_world([0, 1, 2, 5, 6, 7], [0, 1, 6, 7, 8], cut_off=3, boundary=2, target_start=1)
    facts = {"stable_end": 6, "target_end": 5, "written_from": 2}
    kept = found(world, known(world, **facts), whole=True)
    assert (kept.from_offset, kept.missing.tolist(), kept.older.tolist()) == (2, [], [0])
    told = found(world, known(world, deleted_to=6, **facts), whole=True)
    assert (told.from_offset, told.missing.tolist(), told.older.tolist()) == (2, [], [0, 3])
    assert "above source offset 3: copies of the other cluster's topic, which holds all but 1 of 3" in told.evidence


def test_what_an_earlier_failback_left_in_its_place_is_told_by_its_own_offsets() -> None:
    """All records are alike: two of them stayed at 3 and 4, what follows was mirrored, and the last one was not."""
    world = plain_world([1] * 8, [1] * 5)
    without, told = (
        found(world, known(world, kept=np.array(kept, np.int64), proven_end=7), whole=True) for kept in ([], [3, 4])
    )
    assert (without.missing.tolist(), without.from_offset) == ([0, 1], 7)
    assert (told.missing.tolist(), told.from_offset, told.lacking) == ([3, 4], 7, 0)
    assert "2 were left in place by an earlier failback" in told.evidence


@given(st.lists(st.integers(0, 3), max_size=20), st.data())
def test_whatever_was_left_no_content_is_told_less_often(contents: list[int], data: st.DataObject) -> None:
    """A content is listed at least as often as the target lacks it."""
    copied = data.draw(st.lists(st.sampled_from(contents), max_size=20)) if contents else []
    kept = sorted(data.draw(st.sets(st.integers(0, len(contents) - 1)))) if contents else []
    world = plain_world(contents, copied)
    told = found(world, known(world, kept=np.array(kept, np.int64)), whole=True)
    offsets = {*told.missing.tolist(), *range(told.from_offset, len(contents))}
    assert not Counter(contents) - Counter(copied) - Counter(contents[offset] for offset in offsets)
    assert set(kept) <= offsets


def test_a_topic_that_clients_made_on_both_sides_is_looked_through_before_it_is_deleted() -> None:
    """All of it counts as copied, but what the other cluster lacks is listed, all where it cannot be compared."""
    world = plain_world([1, 2, 3], [7, 2], cut_off=0, boundary=None, target_start=None)
    facts = {"stable_end": 3, "target_end": 2, "written_from": 0, "deleted_to": 3}
    assert found(world, known(world, **facts), whole=True).older.tolist() == [0, 2]
    assert found(
        world, known(world, **facts | {"written_from": None, "target_end": None}), whole=True
    ).older.tolist() == [0, 1, 2]
    assert found(world, known(world, **facts), whole=True, content_limit=2).older.tolist() == [0, 1, 2]
