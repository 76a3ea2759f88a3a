"""The picture of the loss: every range a lane on one scale, and nothing drawn as known that is not."""

from __future__ import annotations

from typing import Any

from kafka_dr.domain.evidence.loss_chart import LANES_SHOWN, loss_picture


def row(
    start: int, certain: int | None, possible: int | None, topic: str = "orders", partition: int = 0
) -> dict[str, Any]:
    """A row of loss."""
    return {
        "topic": topic,
        "partition": partition,
        "from_offset": start,
        "certain_to": certain,
        "possible_to": possible,
    }


def drawn(*rows: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Name, certain and possible width, whether it is open, and what is told, of each lane."""
    return [(lane.name, lane.certain, lane.possible, lane.open, lane.figures) for lane in loss_picture(rows).rows]


def test_ranges_stand_on_one_scale_largest_first() -> None:
    """What may be lost beyond what is certain stands behind it."""
    assert drawn(row(1000, 1010, 1050), row(5, 105, 105, partition=1)) == [
        ("orders-1 from 5", 100.0, 0, False, "100 certain"),
        ("orders-0 from 1,000", 10.0, 40.0, False, "10 certain, 40 more possible"),
    ]


def test_an_unknown_end_takes_the_rest_of_its_lane() -> None:
    """However much is certain elsewhere; no length of it can be taken for one that is known."""
    assert drawn(row(0, 100, None), row(0, None, None, partition=1), row(0, 50, 50, partition=2)) == [
        ("orders-0 from 0", 70.0, 30.0, True, "100 certain, end unknown"),
        ("orders-2 from 0", 35.0, 0, False, "50 certain"),
        ("orders-1 from 0", 0, 100.0, True, "nothing certain, end unknown"),
    ]


def test_where_nothing_is_lost_nothing_is_drawn() -> None:
    """A range that has ended before it began; and no row at all."""
    assert drawn() == [] and drawn(row(9, None, 9), row(9, None, 4)) == []
    assert drawn(row(9, 4, 12)) == [("orders-0 from 9", 0, 100.0, False, "nothing certain, 3 more possible")]


def test_many_are_cut_and_long_names_keep_their_ends() -> None:
    """The rest is counted."""
    shown = loss_picture([row(0, n + 1, None, partition=n) for n in range(LANES_SHOWN + 5)])
    assert (len(shown.rows), shown.more, shown.rows[0].name) == (LANES_SHOWN, 5, f"orders-{LANES_SHOWN + 4} from 0")
    (lane,) = loss_picture([row(0, 1, 1, "x" * 240, 17)]).rows
    assert lane.name.startswith("...x") and lane.name.endswith("x-17 from 0") and len(lane.name) == 60 + len(" from 0")
