"""Params that only some procedures take: the type of each, which refuses a value that cannot be meant."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator

from kafka_dr.domain.mirror_maker.patterns import Kind, pattern_problem
from kafka_dr.domain.re_replication.starts import place_problem, time_of
from kafka_dr.domain.reconciliation.choice import place_of, range_of, time_in_ms
from kafka_dr.domain.replication.tuning import tuning_problems

T = TypeVar("T", int, str)

LONGEST_REASON = 500
LONGEST_SHOWN = 60
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def quoted_value(value: Any) -> str:
    """Return a value as text that is safe to show in an error: ASCII, on one line, at most 60 characters."""
    # Python refuses to print integers of more than 4300 digits, and JSON params may contain such an integer.
    text = ascii(value) if not isinstance(value, int) or abs(value) < 10**30 else "a huge number"
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


def reason_problem(reason: Any, instruction: str) -> str | None:
    """Return why a value is no reason, as text; None if it is one. `instruction` says what to write."""
    if not isinstance(reason, str) or not reason.strip():
        return f"{quoted_value(reason) if reason is not None else 'missing'}; {instruction}"
    if len(reason) > LONGEST_REASON:
        return f"{len(reason)} characters; at most {LONGEST_REASON}"
    odd = invisible_in(reason)
    return f"contains the control or invisible character {odd!a}; write one line of visible characters" if odd else None


def invisible_in(text: str) -> str | None:
    """Return the first control or invisible character of a text; None if it has none."""
    return next((c for c in text if unicodedata.category(c) in _INVISIBLE), None)


def _checked_reason(text: str) -> str:
    if problem := "state the reason" if not text.strip() else reason_problem(text, ""):
        raise ValueError(problem)
    return text.strip()


#: Type of a param that states a reason: visible text on one line, not empty, at most `LONGEST_REASON` characters.
Reason = Annotated[str, AfterValidator(_checked_reason)]


def _checked_procedure_id(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,300}", text):
        raise ValueError("expected a procedure id, the name of that procedure's evidence folder")
    return text


#: Type of a param that names another procedure by its id.
ProcedureId = Annotated[str, AfterValidator(_checked_procedure_id)]


def _checked_rules(rules: dict[str, str]) -> dict[str, str]:
    for pattern in rules:
        if problem := pattern_problem(pattern, "topic"):
            raise ValueError(f"{quoted_value(pattern)}: {problem}")
    return rules


#: Type of failback's param `stranded`: regular expression for topics -> decision on their stranded records.
StrandedRules = Annotated[dict[str, Literal["keep", "replay", "quarantine", "discard"]], AfterValidator(_checked_rules)]


def _checked_patterns(kind: Kind) -> AfterValidator:
    def check(text: str) -> str:
        if problem := pattern_problem(text, kind):
            raise ValueError(problem)
        return text

    return AfterValidator(check)


def _checked_settings(settings: dict[str, str]) -> dict[str, str]:
    if problems := list(tuning_problems(settings)):
        raise ValueError("; ".join(problems))
    return settings


def _checked_time(text: str) -> str:
    if time_in_ms(text) is None:
        raise ValueError("expected a time with its zone, such as 2026-11-28T10:00Z")
    return text.strip()


def _checked_ranges(ranges: dict[str, str]) -> dict[str, str]:
    for place, offsets in ranges.items():
        if place_of(place) is None:
            raise ValueError(f"{quoted_value(place)}: expected TOPIC:PARTITION")
        if range_of(offsets) is None:
            raise ValueError(f"{quoted_value(place)}: {quoted_value(offsets)}; expected FROM-TO, FROM below TO")
    return ranges


#: Types of reconcile_clusters' params: a time, and partition -> range of offsets.
RecordTime = Annotated[str, AfterValidator(_checked_time)]
OffsetRanges = Annotated[dict[str, str], AfterValidator(_checked_ranges)]


def _checked_places(starts: dict[str, T]) -> dict[str, T]:
    for place, start in starts.items():
        if problem := place_problem(place):
            raise ValueError(f"{quoted_value(place)}: {problem}")
        if isinstance(start, int) and start < 0:
            raise ValueError(f"{quoted_value(place)}: {start}; an offset is 0 or more")
        if isinstance(start, str) and time_of(start) is None:
            raise ValueError(f"{quoted_value(place)}: {quoted_value(start)}; expected a time such as 2026-11-28T10:00Z")
    return starts


#: Params of re_replicate_topics: `TOPIC` or `TOPIC:PARTITION` -> first offset, or time of the first record.
StartOffsets = Annotated[dict[str, int], AfterValidator(_checked_places)]
StartTimes = Annotated[dict[str, str], AfterValidator(_checked_places)]


#: Params that only some procedures take, name -> type; those that were given are in `Request.choices`.
CHOICES: dict[str, Any] = {
    "acknowledge_recreated_topics": bool,
    "acknowledge_owner": bool,
    "acknowledge_cool_down": Reason,
    "override_source_lost": Reason,
    "continue_procedure": ProcedureId,
    "common_plan": ProcedureId,
    "other_targets": str,
    "mode": Literal["append", "recreate"],
    "stranded": StrandedRules,
    "compare": Literal["proven", "whole"],
    "undo_procedure": ProcedureId,
    "overwrite_later_commits": bool,
    "add_topics": Annotated[str, _checked_patterns("topic")],
    "remove_topics": Annotated[str, _checked_patterns("topic")],
    "add_groups": Annotated[str, _checked_patterns("group")],
    "remove_groups": Annotated[str, _checked_patterns("group")],
    "settings": Annotated[dict[str, str], AfterValidator(_checked_settings)],
    "connector": str,
    "excluded_interval": Literal["copy", "skip"],
    "names_to_come": bool,
    "kind": Literal["observe", "canary", "full"],
    "since": RecordTime,
    "until": RecordTime,
    "offset_ranges": OffsetRanges,
    "delete_target_topics": bool,
    "include_compacted": bool,
    "from_offset": StartOffsets,
    "from_time": StartTimes,
}
