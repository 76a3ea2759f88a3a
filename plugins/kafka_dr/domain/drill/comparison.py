"""A drill beside the last one of the same flow: seconds, sizes, versions, configuration, verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kafka_dr.domain.readiness.fingerprint import Fingerprint, changes_since

Section = Mapping[str, Any]
_ABSENT = "absent"


def compare_drills(now: Section, before: Section | None) -> dict[str, Any] | None:
    """Return how a drill differs from the last one; None without a last one.

    Args:
        now, before: `drill` sections of evidence. Only fields that both kinds of drill have are compared.

    Returns:
        `verdict`, `kind`: {`before`, `now`}. `seconds`: [{`pass`, `step`, `before`, `now`, `change_percent`}], a whole
        pass with step `all`, its downtime with step `downtime`; null where a drill has no such figure. `sizes` and
        `versions`: [{`name`, `before`, `now`}], equal ones included. `configuration`: {`voiding`, `sampled`,
        `informational`: [text]} of what differs in the fingerprints; null if one of them is not known.
    """
    if before is None:
        return None
    return {
        "with": before.get("procedure_id"),
        "verdict": {"before": before.get("verdict"), "now": now.get("verdict")},
        "kind": {"before": before.get("kind"), "now": now.get("kind")},
        "seconds": list(_seconds(_durations(now), _durations(before))),
        "sizes": list(_side_by_side(now.get("size") or {}, before.get("size") or {})),
        "versions": list(_side_by_side(now.get("versions") or {}, before.get("versions") or {})),
        "configuration": _configuration(now.get("fingerprint"), before.get("fingerprint")),
    }


def _durations(section: Section) -> dict[tuple[str, str], float | None]:
    """Return the seconds of each step of each pass, of each whole pass, and of its downtime."""
    found: dict[tuple[str, str], float | None] = {}
    for one in section.get("passes") or ():
        seconds = one.get("seconds") or {}
        found[one["name"], "all"] = seconds.get("whole")
        found[one["name"], "downtime"] = seconds.get("downtime")
        found |= {(one["name"], step["id"]): step.get("seconds") for step in one.get("steps") or ()}
    return found


def _seconds(
    now: Mapping[tuple[str, str], float | None], before: Mapping[tuple[str, str], float | None]
) -> Iterator[dict[str, Any]]:
    for key in dict.fromkeys([*now, *before]):
        new, old = now.get(key), before.get(key)
        yield {"pass": key[0], "step": key[1], "before": old, "now": new, "change_percent": change_percent(old, new)}


def change_percent(before: float | None, now: float | None) -> float | None:
    """Return by how much a figure has grown, in percent; None if either is not known or there was none before."""
    if before is None or now is None or before <= 0:
        return None
    return round(100 * (now - before) / before, 1)


def _side_by_side(now: Mapping[str, Any], before: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    return ({"name": name, "before": before.get(name), "now": now.get(name)} for name in dict.fromkeys([*now, *before]))


def _configuration(now: Mapping[str, Any] | None, before: Mapping[str, Any] | None) -> dict[str, list[str]] | None:
    """Return what differs between two fingerprints, by class; None if one of them is not known."""
    if now is None or before is None:
        return None
    new, old = Fingerprint.from_dict(now), Fingerprint.from_dict(before)
    changes = list(changes_since(old, new))
    voiding = {*old.voiding, *new.voiding}
    items = sorted({*old.informational, *new.informational})
    return {
        "voiding": [change.text for change in changes if change.about in voiding],
        "sampled": [change.text for change in changes if change.about not in voiding],
        "informational": [
            f"{item}: at the last drill {was}, now {is_now}"
            for item in items
            if (was := old.informational.get(item, _ABSENT)) != (is_now := new.informational.get(item, _ABSENT))
        ],
    }
