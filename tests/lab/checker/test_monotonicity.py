"""Whoever knows less may claim no more: each bolder claim is found, and each safer one passes."""

from __future__ import annotations

from typing import Any

import pytest

from lab.checker.monotonicity import bolder_groups, bolder_losses, bolder_positions, higher_positions
from tests.lab.checker.round_trips import loss_row, position_row


def position(**changes: Any) -> dict[str, Any]:
    """Return one row of a file of positions: exact by no means, up to five records again from 10 on."""
    whole = position_row("billing", ("orders", 0), 12, "orders", 10, bound=5, exact=False)
    return whole | {"class": "NEAREST"} | changes


def loss(**changes: Any) -> dict[str, Any]:
    """Return one row of loss, certain of five records."""
    return loss_row(40, 45) | changes


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"target_position": 8, "bound": 7},
        {"target_position": 8, "bound": None},
        {"bound": 6},
        {"position": 11, "target_position": 9, "bound": 0},
        {"class": "POLICY"},
        {"class": "REFUSED", "target_position": None, "bound": None},
    ],
)
def test_a_safer_position_passes(changes: dict[str, Any]) -> None:
    """Lower with a bound as large, lower than a known position, of a weaker class, or none at all."""
    assert bolder_positions([position()], [position(**changes)]) == []
    assert bolder_positions([position()], [position(**changes)], sampled=False) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target_position": 11, "bound": 4}, "target position above 10"),
        ({"class": "SYNC"}, "is SYNC"),
        ({"bound": 4}, "from 14 on"),
        ({"target_position": 8, "bound": 6}, "from 14 on"),
        ({"exact": True}, "is exact"),
        ({"position": 13}, "above 12"),
        ({"group": "others"}, "the run with more information has no such position"),
    ],
)
def test_a_bolder_position_is_found(changes: dict[str, Any], said: str) -> None:
    """Each claim that only more knowledge could bear."""
    (finding,) = bolder_positions([position()], [position(**changes)])
    assert (finding.check, finding.topic, finding.partition) == ("bolder", "orders", 0)
    assert said in finding.text


def test_a_refused_position_that_gets_a_place_is_found() -> None:
    """Who knew more left it to a person."""
    refused = position(**{"class": "REFUSED", "target_position": None, "bound": None})
    assert len(bolder_positions([refused], [position()])) == 1


def test_a_bound_may_not_appear_where_there_was_none() -> None:
    """None reaches anywhere."""
    assert len(bolder_positions([position(bound=None)], [position()])) == 1


def test_without_samples_a_position_may_stand_higher_if_its_bound_says_so() -> None:
    """It rests on what nobody checked; that is counted, and its bound still reaches as far."""
    higher = position(**{"target_position": 12, "class": "SYNC", "bound": 3})
    assert bolder_positions([position()], [higher], sampled=False) == []
    assert (higher_positions([position()], [higher]), higher_positions([position()], [position()])) == ([higher], [])
    assert len(bolder_positions([position()], [higher | {"bound": 2}], sampled=False)) == 1
    assert len(bolder_positions([position()], [higher | {"exact": True}], sampled=False)) == 1


@pytest.mark.parametrize("safer", [loss(), loss_row(40), loss_row(40, 44), loss_row(30), loss_row(40, 40)])
def test_a_safer_loss_passes(safer: dict[str, Any]) -> None:
    """It begins earlier, and less of it is certain."""
    assert bolder_losses([loss()], [safer]) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"from_offset": 41}, "nothing below 41"),
        ({"certain_to": 46}, "up to 46"),
        ({"from_offset": 39}, "certainly loses"),
        ({"possible_to": 50}, "from 50 on"),
        ({"partition": 1}, "claims no loss"),
    ],
)
def test_a_bolder_loss_is_found(changes: dict[str, Any], said: str) -> None:
    """What begins later, is certain of other records, or ends."""
    (finding,) = bolder_losses([loss()], [loss(**changes)])
    assert said in finding.text


def test_nothing_becomes_certain_with_less_knowledge() -> None:
    """Where nothing was certain nothing is."""
    assert len(bolder_losses([loss(certain_to=None)], [loss()])) == 1
    assert bolder_losses([loss(possible_to=50)], [loss()]) == []


@pytest.mark.parametrize(("told", "count"), [(5, 0), (6, 0), (None, 0), (4, 1)])
def test_the_plan_tells_no_fewer_rereads(told: int | None, count: int) -> None:
    """Nobody knows how many is as safe as can be."""
    groups = [{"group": "billing", "rereads": told}, {"group": "others", "rereads": 0}]
    assert len(bolder_groups([{"group": "billing", "rereads": 5}], groups)) == count


def test_a_group_that_may_stand_higher_may_be_told_less() -> None:
    """Of every other group the plan tells no less; one that stands where it stood, or lower, is one of them."""
    fuller, groups = ([{"group": name, "rereads": told} for name in ("billing", "audit")] for told in (5, 1))
    higher = higher_positions(
        [position(), position(group="audit")],
        [position(target_position=12), position(group="audit", target_position=9)],
    )
    assert [finding.group for finding in bolder_groups(fuller, groups, higher)] == ["audit"]
