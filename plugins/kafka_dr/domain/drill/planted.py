"""The faults that a drill makes on purpose, and whether Switchback noticed each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafka_dr.domain.drill.facts import DrillPass, Planted
from kafka_dr.domain.plain_text import count_of
from kafka_dr.vocabulary import Step

_WHAT = "the source was taken away"
_EXPECTED = "confirm_source_lost finds the source lost, and every record without a copy is listed"


def planted_faults(passes: Iterable[DrillPass]) -> Iterator[Planted]:
    """Yield the fault of each pass whose source was taken away; unknown if the pass or its count did not end."""
    for one in passes:
        if one.simulated_loss:
            yield _lost_source(one)


def _lost_source(one: DrillPass) -> Planted:
    steps = {step["id"]: step.get("state") for step in (one.evidence or {}).get("steps") or ()}
    counted, what = one.integrity, f"{_WHAT} from {one.name}"
    if steps.get(Step.CONFIRM_SOURCE_LOST) != "done":
        return Planted(what, _EXPECTED, "the source was not found lost", None if one.evidence is None else False)
    if counted is None or counted.lost_listed is None or counted.lost_unlisted is None:
        return Planted(what, _EXPECTED, "the source was found lost; the lost records were not counted")
    seen = (
        f"the source was found lost; {count_of(counted.lost_listed, 'record')} without a copy on the list,"
        f" {counted.lost_unlisted:,} on no list"
    )
    return Planted(what, _EXPECTED, seen, counted.lost_unlisted == 0)
