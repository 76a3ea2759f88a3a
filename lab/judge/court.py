"""The judge: holds what both clusters show against the ground truth, check by check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lab.judge import evidence as told
from lab.judge import records as seen
from lab.judge.conduct import (
    Consumption,
    absent_positions,
    beyond_cut_off,
    consumed_findings,
    late_acknowledgements,
    misplaced,
    uncalled_positions,
    unread_new_records,
)
from lab.judge.exhibits import Case, Exhibits, pairs
from lab.judge.findings import Finding, Verdict, examples
from lab.judge.positions import out_of_order
from lab.judge.readers import Place
from lab.workload.truth import COMMITTED, Record

REFUSALS = {"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"}
INTERNAL_GROUPS = ("connect-", "__", "lab-judge")


class Judge:
    """Judges one finished planned failover on the real clusters."""

    def __init__(self, case: Case, seen: Exhibits | None = None) -> None:
        """Take a case, and what is seen of it where that is not to be read from the lab's clusters."""
        self.case = case
        self.seen = seen or Exhibits(case)
        self.verdict = Verdict()
        self._rereads = 0
        self._judged = 0
        self._ours_there = {a.digest for a in case.clients.acknowledged[case.target]}

    def judge(self, writes: bool = True) -> Verdict:
        """Run every check.

        Args:
            writes: also try one write to every topic on both clusters, at the very end.
        """
        shape = told.shape_findings(self.case.evidence)
        self.verdict.add(shape)
        self._judge_topics()
        for place in self.seen.places:
            self._judge_records(place)
        self._judge_positions()
        self._judge_acknowledgements()
        self._judge_consumption()
        if not shape:
            self._judge_evidence()
        if writes:
            self._judge_writes()
        return self.verdict

    def _judge_topics(self) -> None:
        existing = self.seen.target.partitions()
        wanted = {self.case.remote(topic): count for topic, count in self.seen.topics.items()}
        if self.case.policy != "identity":
            wanted |= self.seen.topics
        lost = [
            Finding("topic", "is gone from the source", topic=name)
            for name in self.case.truth.topics
            if name not in self.seen.topics
        ]
        unlike = [
            Finding(
                "topic", f"has {existing.get(name, 'no')} partitions on the target, {count} on the source", topic=name
            )
            for name, count in wanted.items()
            if existing.get(name) != count
        ]
        self.verdict.add(lost + unlike, topics=len(self.seen.topics), partitions=len(self.seen.places))

    def _judge_records(self, place: Place) -> None:
        history, target = self.seen.history[place], self.seen.mirrored(place)
        acknowledged = [record for record in history if record.state == COMMITTED]
        digests = [held.digest for held in target]
        if place[0] in self.seen.named("compacted"):
            missing = seen.stale_keys(acknowledged, target)
        else:
            missing = seen.missing_records(acknowledged, digests)
        known = [digest for _, digest in self.seen.known[place]]
        figures = {
            "records": len(acknowledged), "missing": len(missing), "repeats": seen.repeats(known, digests),
            "aborted_visible": seen.aborted_visible(history, digests),
            "out_of_order": out_of_order(self.seen.live_logs[place], pairs(target)),
        }  # fmt: skip
        self.verdict.add(self._missing(place, missing) + self._foreign(place, known, target), **figures)

    def _missing(self, place: Place, missing: list[Record]) -> list[Finding]:
        there, partition = self.seen.there(place)
        text = "acknowledged by the source (its offset), not on the target"
        return [Finding("missing", text, None, there, partition, record.offset, record.id) for record in missing]

    def _foreign(self, place: Place, known: list[int], target: list[seen.Held]) -> list[Finding]:
        changed = seen.contradictions(
            ((r.offset, r.digest) for r in self.seen.history[place]), pairs(self.seen.source_logs[place])
        )
        findings = [
            Finding("source changed", "holds another record than was acknowledged", None, *place, offset)
            for offset in changed
        ]
        return self._foreign_on_target(place, known, target) + findings

    def _foreign_on_target(self, place: Place, known: list[int], target: list[seen.Held]) -> list[Finding]:
        there, partition = self.seen.there(place)
        below = [
            ("stranger", "is on the target below the boundary, the source never held it", held)
            for held in seen.strangers(known, target)
        ]
        written = [held for held in self.seen.written_there(place) if held.digest not in self._ours_there]
        unknown = {held.offset for held in seen.strangers(known, written)}
        above = [
            (
                "boundary",
                (
                    "was written above the boundary by nobody the judge knows"
                    if h.offset in unknown
                    else "was mirrored above the boundary"
                ),
                h,
            )
            for h in written
        ]
        return [Finding(check, text, None, there, partition, held.offset) for check, text, held in below + above]

    def _judge_positions(self) -> None:
        groups = [group for group in self.seen.source.groups() if not group.startswith(INTERNAL_GROUPS)]
        here = {group: _of(found, self.seen.topics) for group, found in self.seen.source.positions(groups).items()}
        there = self.seen.target.positions(sorted(set(groups) | set(self.case.truth.positions)))
        # A group with consumers has moved on by now: what counts is what its first consumer found.
        started = self.case.clients.started_on(self.case.target)
        known_there = {topic for topic, _ in self.seen.target_logs}
        self.verdict.add(self._moved_on_source(here))
        for group, positions in here.items():
            if group in self.case.clients.groups() and group not in started:
                self.verdict.add([Finding("group missing", "its consumer never started on the target", group)])
            self._judge_group(group, positions, _of(started.get(group, there[group]), known_there))

    def _judge_group(self, group: str, here: Mapping[Place, int], there: Mapping[Place, int]) -> None:
        if not here:
            return
        local = self.case.policy != "identity"
        self.verdict.add(absent_positions(group, here, there, self.case.remote, local))
        self.verdict.add(uncalled_positions(group, here, there, self.case.remote, local), groups=1)
        for place, position in here.items():
            target_position = there.get(self.seen.there(place))
            if target_position is not None:
                self._judge_position(group, place, position, target_position)

    def _judge_position(self, group: str, place: Place, position: int, target_position: int) -> None:
        alignment = self.seen.alignments[place]
        start = self.seen.target_starts.get(self.seen.there(place), 0)
        unread = next((r.id for r in self.seen.history[place] if r.offset >= position and r.state == COMMITTED), None)
        findings = misplaced(group, self.seen.there(place), alignment, position, target_position, start, unread)
        self.verdict.add(findings, positions=1, exact=int(not findings))
        self._judged += 1
        self._rereads = max(self._rereads, alignment.standing(position, target_position).rereads)

    def _moved_on_source(self, here: Mapping[str, Mapping[Place, int]]) -> list[Finding]:
        running = self.case.clients.groups()
        return [
            Finding(
                "source position",
                f"was committed at {offset}, the source now says {here.get(group, {}).get((topic, p))}",
                group,
                topic,
                p,
            )
            for group, topic, p, offset in self.case.truth.placed()
            if group not in running and here.get(group, {}).get((topic, p)) != offset
        ]

    def _judge_acknowledgements(self) -> None:
        acknowledged = self.case.acknowledged
        findings = beyond_cut_off(acknowledged, self.seen.cut_off)
        if self.case.evidence.get("fenced_at"):
            findings += late_acknowledgements(acknowledged, told.milliseconds(self.case.evidence["fenced_at"]))
        self.verdict.add(
            findings,
            acknowledged_by_load=len(self.case.loads),
            acknowledged_by_clients=len(acknowledged) - len(self.case.loads),
        )

    def _judge_consumption(self) -> None:
        bound = self._announced_rereads()
        reached = self.seen.target.positions(sorted(self.case.clients.groups()))
        for group, started in self.case.clients.started_on(self.case.source).items():
            for place, start in started.items():
                if place in self.seen.alignments:
                    self._judge_delivery(group, place, start, reached[group], bound)

    def _announced_rereads(self) -> int:
        return (self.case.evidence.get("rereads") or {}).get("bound") or 0

    def _judge_delivery(self, group: str, place: Place, start: int, reached: Mapping[Place, int], bound: int) -> None:
        there = self.seen.there(place)
        given_here = self.case.clients.consumed[self.case.source, group].get(place, [])
        given_there = self.case.clients.consumed[self.case.target, group]
        consumption = Consumption(group, *place, start, given_here, given_there.get(there, []), reached.get(there, 0))
        findings, figures = consumed_findings(
            consumption, self.seen.live_logs[place], pairs(self.seen.mirrored(place)), bound
        )
        new = pairs(
            self.seen.written_there(place) if self.case.policy == "identity" else self.seen.target_logs.get(place, [])
        )
        written_at = there if self.case.policy == "identity" else place
        end = reached.get(written_at, 0)
        findings += unread_new_records(group, written_at, new, given_there.get(written_at, []), end)
        self.verdict.add(findings, **figures, new_records_consumed=sum(offset < end for offset, _ in new))

    def _judge_evidence(self) -> None:
        case = self.case
        self.verdict.add(told.story_findings(case.evidence, case.source, case.target, case.approver, case.folder))
        self.verdict.add(told.count_findings(case.evidence, self._judged, self._rereads))
        self.verdict.add(told.offset_findings("cut_off", told.offsets(case.evidence["cut_off"]), self.seen.source_ends))
        self._judge_boundary()

    def _judge_boundary(self) -> None:
        claimed = told.offsets(self.case.evidence["boundary"])
        mirrored = {self.seen.there(place): place for place in self.seen.places}
        quiet = {
            at: self.seen.target_ends.get(at, 0)
            for at, place in mirrored.items()
            if not self.seen.written_there(place) and at not in self.seen.probed
        }
        self.verdict.add([Finding("evidence", "has no boundary", None, *at) for at in mirrored if at not in claimed])
        self.verdict.add(
            told.offset_findings("boundary", claimed, {at: end for at, end in quiet.items() if at in claimed})
        )

    def _judge_writes(self) -> None:
        # Last of all, for an accepted write changes what the other checks read.
        refused = self.seen.source.try_writes(self.seen.topics)
        open_here = [
            f"{topic} ({refused.get(topic, 'no answer') or 'accepted'})"
            for topic in self.seen.topics
            if refused.get(topic) not in REFUSALS
        ]
        if open_here:
            self.verdict.add([Finding("source open", f"does not refuse a producer's write: {examples(open_here)}")])
        self._judge_writes_there()

    def _judge_writes_there(self) -> None:
        accepted = self.seen.target.try_writes(self.seen.topics)
        closed_there = [
            f"{topic} ({accepted.get(topic, 'no answer')})" for topic in self.seen.topics if accepted.get(topic) != ""
        ]
        if closed_there:
            self.verdict.add(
                [Finding("target closed", f"does not accept a producer's write: {examples(closed_there)}")]
            )
        if self.case.policy != "identity":
            answers = self.seen.target.try_writes(self.case.remote(topic) for topic in self.seen.topics)
            self.verdict.add(
                [
                    Finding("mirror open", "accepts a producer's write", topic=topic)
                    for topic, error in answers.items()
                    if not error
                ]
            )


def _of(positions: Mapping[Place, int], topics: Iterable[str]) -> dict[Place, int]:
    ours = set(topics)
    return {place: offset for place, offset in positions.items() if place[0] in ours}
