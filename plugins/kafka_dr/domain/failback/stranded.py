"""Decisions on stranded records, one per topic: what each mode allows, and what a second person approves.

Invariants
1. A topic with stranded records has exactly one decision; patterns that disagree about a topic are an error.
2. A decision that the mode makes impossible is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.mirror_maker.patterns import ALL, pattern_list
from kafka_dr.domain.plain_text import count_of


class Mode(StrEnum):
    """How the returned cluster gets the new primary's records.

    APPEND: added to the returned cluster's old logs. RECREATE: copied into topics that are deleted and created again.
    """

    APPEND = "append"
    RECREATE = "recreate"


class Decision(StrEnum):
    """What to do with a topic's stranded records, which are exported first in every case.

    KEEP: leave the records in the returned cluster's log. REPLAY: write the records to the topic on the new primary.
    QUARANTINE: write the records to a separate topic on the new primary. DISCARD: leave the records in the export only.
    """

    KEEP = "keep"
    REPLAY = "replay"
    QUARANTINE = "quarantine"
    DISCARD = "discard"


@dataclass(frozen=True)
class StrandedTotals:
    """The stranded records of one topic.

    Attributes:
        records: number of records on the returned cluster that were never replicated.
        bytes: total size of these records' keys and values.
        first_at: smallest timestamp of these records, in milliseconds since 1970; None if no record has a timestamp.
        last_at: largest timestamp of these records, in milliseconds since 1970; None if no record has a timestamp.
        aborted: number of stranded records of aborted transactions.
        undecided: number of stranded records behind a transaction that is still open.
        lacking: number of replicated records that the new primary has and the returned cluster has lost.
        older: number of replicated records that only the returned cluster still has, because the new primary's
            retention deleted them; counted only if the returned cluster's log will be deleted.
        compacted: whether the topic is compacted: a replay then drops values whose key clients wrote later.
    """

    topic: str
    records: int
    bytes: int = 0
    first_at: int | None = None
    last_at: int | None = None
    aborted: int = 0
    undecided: int = 0
    lacking: int = 0
    older: int = 0
    compacted: bool = False


@dataclass(frozen=True)
class PlannedReturn:
    """The planned treatment of the returned cluster's logs in a failback, as a second person approves it.

    Attributes:
        source, target: aliases of the new primary and of the returned cluster.
        found: digest of the result of find_stranded_records.
        stranded: totals of each topic that has stranded records, or that lacks records on the returned cluster.
        decisions: topic -> decision.
        deleted: bytes that the topics to be recreated have on the returned cluster; None in mode append, or if unknown.
        copied: approximate number of records that the flow back has to copy; None if unknown.
        copied_bytes: approximate bytes of these records, in mode recreate; None if unknown.
        apart: whether each direction has topics of its own; topics with stranded records are then deleted in no mode.
        gone: topics whose old log an earlier run deleted: only that run's export has their stranded records.
        left_out: what the export leaves out of each record, in words; empty if it holds them whole.
    """

    source: str
    target: str
    reason: str
    mode: Mode
    found: str
    stranded: tuple[StrandedTotals, ...]
    decisions: Mapping[str, Decision]
    deleted: int | None = None
    copied: int | None = None
    copied_bytes: int | None = None
    apart: bool = False
    gone: tuple[str, ...] = ()
    left_out: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON of these fields, in hexadecimal; an approval names this digest."""
        fields = asdict(self)
        # An approval that was given to an earlier version stays valid.
        if not self.left_out:
            del fields["left_out"]
        return digest_of(fields)

    @property
    def needs_a_person(self) -> bool:
        """Whether the failback loses, writes or deletes any record, so that a second person must decide."""
        return bool(self.stranded) or self.mode is Mode.RECREATE


def decide_topics(topics: Iterable[str], rules: Mapping[str, str]) -> tuple[dict[str, Decision], list[str]]:
    """Return each topic's decision by the rules, and the topics on which rules contradict each other.

    Args:
        topics: names of topics with stranded records.
        rules: regular expression, as in MirrorMaker 2's `topics`, to decision. A rule with a topic's exact name goes
            before other expressions, `.*` counts last; a topic without any rule gets the decision keep.

    Returns:
        Topic -> decision; and one sentence for each topic with contradicting rules.
    """
    expressions = {pattern: pattern_list(pattern, "topic") for pattern in rules if pattern != ALL}
    decided, problems = {}, []
    for topic in sorted(topics):
        matching = (
            {Decision(rules[topic])}
            if topic in rules
            else {Decision(rules[name]) for name, patterns in expressions.items() if patterns.matches(topic)}
        )
        if len(matching) > 1:
            problems.append(
                f"{topic}: patterns decide both {' and '.join(sorted(matching))}; add a rule under the topic's exact"
                " name"
            )
        decided[topic] = min(matching) if matching else Decision(rules.get(ALL, Decision.KEEP))
    return decided, problems


def impossible_decisions(
    mode: Mode,
    stranded: Iterable[StrandedTotals],
    decisions: Mapping[str, Decision],
    target: str,
    apart: bool = False,
    gone: Collection[str] = (),
) -> list[str]:
    """Return a sentence for each decision that the mode makes impossible, with the possible decisions; [] if none.

    Args:
        target: alias of the returned cluster.
        apart: whether each direction has topics of its own, so that no mode deletes topics with stranded records.
        gone: topics of the returned cluster whose old log an earlier run deleted.
    """
    stranded = list(stranded)
    # A topic whose old log an earlier run deleted counts as recreated, also in mode append.
    modes = {totals.topic: Mode.RECREATE if totals.topic in gone else mode for totals in stranded}
    with_records = [totals for totals in stranded if totals.records]
    impossible = [
        f"{totals.topic}: {decisions[totals.topic]} is impossible for {count_of(totals.records, 'record')};"
        f" {_why_not(modes[totals.topic], totals.topic in gone).format(target=target)}"
        for totals in with_records
        if _is_impossible(modes[totals.topic], decisions[totals.topic], apart)
    ]
    lacking = [
        f"{totals.topic}: {target} has lost {count_of(totals.lacking, 'record')} that the new primary still has;"
        " choose mode recreate, which copies these records back"
        for totals in stranded
        if totals.lacking and modes[totals.topic] is Mode.APPEND and not apart
    ]
    return impossible + lacking


_WHY_NOT = {
    Mode.APPEND: ("mode append leaves stranded records in the log on {target}: choose keep, or mode recreate"),
    Mode.RECREATE: ("mode recreate deletes the log on {target}: choose replay, quarantine or discard"),
}


_GONE = (
    "an earlier run has deleted the log on {target}, and only the export of that run holds the records: choose replay,"
    " quarantine or discard"
)


def _why_not(mode: Mode, gone: bool) -> str:
    return _GONE if gone else _WHY_NOT[mode]


def _is_impossible(mode: Mode, decision: Decision, apart: bool) -> bool:
    if mode is Mode.APPEND:
        return decision is not Decision.KEEP
    return decision is Decision.KEEP and not apart
