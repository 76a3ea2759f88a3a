"""Changes of sides of made-up clusters, as the checker's tests need them."""

from __future__ import annotations

from collections.abc import Callable

from lab.checker.records import Held
from lab.checker.round_trip.observed import PLANNED, UNPLANNED
from tests.lab.checker.round_trips import Story, digest

AT = ("orders", 0)
POLICIES = ("identity", "default")
MODES = ("append", "recreate")
Make = Callable[..., Story]


def moved(
    make: Make, policy: str = "identity", dag_id: str = PLANNED, mirrored: int | None = None, **trip: object
) -> Story:
    """Clients went over, and write there; the first change was checked."""
    story = make(policy)
    story.write("abcdef")
    story.place("billing", 2)
    story.fail_over(dag_id, mirrored, approver="approver" if dag_id == UNPLANNED else None, **trip)
    story.write("uvw")
    story.passes()
    return story


def lost(make: Make, policy: str = "identity", **trip: object) -> Story:
    """The same of a lost source: `e` and `f` were never mirrored."""
    return moved(make, policy, UNPLANNED, 4, **trip)


def back(story: Story, mode: str = "append", **how: object) -> Story:
    """Clients returned, write there, and what they write is mirrored as before."""
    story.fail_back(mode, **how)
    story.write("XY")
    story.flow_on()
    return story


def returned(make: Make, policy: str = "identity", mode: str = "append") -> Story:
    """Clients went over while both clusters lived, and returned."""
    return back(moved(make, policy), mode)


def lost_and_returned(make: Make, mode: str = "append", **how: object) -> Story:
    """Clients returned to a source that had been lost, and have written nothing since."""
    story = lost(make)
    story.fail_back(mode, **how)
    return story


def repeated(make: Make, crashed: bool = True) -> Story:
    """MirrorMaker 2 copied `bcd` twice before clients went over."""
    story = make()
    story.write("abcd")
    story.mirror("primary")
    copy(story, "standby", "bcd")
    story.fail_over(crashed=crashed)
    return story


def assert_exact_at(story: Story, right: int, policy: str = "identity") -> None:
    """The group's position passes there, skips one further, and is not exact one before."""
    for position, found in ((right, set()), (right + 1, {"skipped"}), (right - 1, {"not exact"})):
        assert put(story, position, policy) == found, position


def name_there(story: Story, alias: str) -> tuple[str, int]:
    """The place of what clients of the first cluster wrote."""
    return AT if alias == "primary" else story.names.counterpart(("primary", AT))[1]


def drop(story: Story, alias: str, letter: str) -> None:
    """Take a record out of every log of a cluster."""
    for place, log in story.clusters[alias].logs.items():
        story.clusters[alias].logs[place] = [one for one in log if one.digest != digest(letter)]


def copy(
    story: Story, alias: str, letters: str, place: tuple[str, int] | None = None, source: str | None = None
) -> None:
    """Put copies at the end of a cluster's log."""
    for letter in letters:
        story.clusters[alias].append(place or name_there(story, alias), Held(0, digest(letter), 0, False))


def put(story: Story, position: int, policy: str = "identity") -> set[str]:
    """Move the group on the target; the checks that find something, but that the evidence announced no re-reads."""
    topic = AT[0] if story.trip.target == "primary" or policy == "identity" else "primary.orders"
    story.place("billing", position, topic, story.trip.target)
    return story.checks() - {"evidence"}
