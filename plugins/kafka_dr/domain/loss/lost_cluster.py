"""The common plan of all pairs of a lost cluster: its parts, what forbids it, and its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.flow_graph.section import flows_markdown
from kafka_dr.domain.plain_text import count_of, first_few, shorten_text, table_cell
from kafka_dr.domain.readiness.terms import terms_markdown
from kafka_dr.vocabulary import Outcome, Step

_SHOWN = 20


@dataclass(frozen=True)
class PairPart:
    """What one pair's run of unplanned_failover will do; its own plan is the file that `plan_digest` names.

    Attributes:
        procedure_id: of the pair's run.
        target: where clients go.
        plan_digest: digest of the run's own plan.
        routes: whether the routing record will lead to the target.
        servers: bootstrap servers of the target.
        certain: number of records that are certainly not on the target; `possible`: at most so many, None: no bound.
        from_others: source topic -> cluster where its records were written, which still has them, of the topics in the
            loss.
        groups: groups that get a position on the target.
        topics: number of topics that clients will write on the target.
        translation: of the groups' positions: digest, positions, exact, classes; None if it is made after the approval.
        inexact: the positions that are not exact, worst first, as cells of a table; only the first.
    """

    procedure_id: str
    target: str
    plan_digest: str
    routes: bool
    servers: str
    certain: int
    possible: int | None
    from_others: Mapping[str, str]
    groups: Sequence[str]
    topics: int
    translation: Mapping[str, Any] | None
    inexact: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class LostClusterPlan:
    """The plan that one approval approves.

    Attributes:
        source: the lost cluster.
        naming: the naming policy.
        pairs: the pair to which the routing record leads first.
        left: group -> source topics where the group has a position, and gets none on any target.
        flows: what becomes of all flows, and what readers find, as of `lost_cluster_section`.
        cool_down: the cool-down that is not waited for, and why; None if none was running.
        terms: clusters, topology, deadlines and approvers of the run, with the fields of `Terms`.
    """

    procedure_id: str
    source: str
    target: str
    reason: str
    naming: str
    pairs: tuple[PairPart, ...]
    left: Mapping[str, Sequence[str]]
    flows: Mapping[str, Any]
    cool_down: Mapping[str, Any] | None = None
    terms: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON data."""
        return asdict(self)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's canonical JSON, in hexadecimal; the approval names this digest."""
        return digest_of(self.as_dict())


@dataclass(frozen=True)
class PairClaims:
    """What one pair's plan takes to its target.

    Attributes:
        placed: (group, source topic) of each position that the target gets.
        unplaced: (group, source topic) of each position that the target cannot get.
        opened: topics that clients will write, by their names on the target.
    """

    target: str
    placed: frozenset[tuple[str, str]]
    unplaced: frozenset[tuple[str, str]]
    opened: frozenset[str]


def forbidden_ends(claims: Sequence[PairClaims], one_name: bool) -> Iterator[str]:
    """Yield, as a sentence each, what two pairs must not both do: serve one group, take writes for one topic.

    A group may go to several targets if it reads other topics on each, as a group that reads the records of several
    regions on their centre.

    Args:
        one_name: whether a topic of one name on two clusters is one topic, as under any naming but the default.
    """
    for one, other in combinations(claims, 2):
        where = f"{one.target} and {other.target}"
        if twice := sorted(one.placed & other.placed):
            listed = first_few([f"{group} in {topic}" for group, topic in twice], _SHOWN)
            yield f"one group would be served on {where}, in the same topics: {listed}"
        if one_name and (topics := sorted(one.opened & other.opened)):
            yield f"clients would write the same topics on {where}: {first_few(topics, _SHOWN)}"


def left_behind(claims: Sequence[PairClaims]) -> dict[str, list[str]]:
    """Return group -> source topics where the group has a position that no target gets."""
    placed = frozenset[tuple[str, str]]().union(*(claim.placed for claim in claims))
    unplaced = frozenset[tuple[str, str]]().union(*(claim.unplaced for claim in claims)) - placed
    groups = sorted({group for group, _ in unplaced})
    return {group: sorted(topic for name, topic in unplaced if name == group) for group in groups}


def lost_cluster_markdown(plan: Mapping[str, Any], digest: str, pages: Mapping[str, str]) -> str:
    """Return the gate's page as Markdown: every pair's loss and groups, all flows, and each pair's own page.

    Args:
        plan: the fields of `LostClusterPlan`.
        pages: procedure id of a pair's run -> the page of its own plan.
    """
    lines = [
        (
            f"**{plan['source']}** is given up. Its clients go to {_targets(plan)}, by"
            f" {count_of(len(plan['pairs']), 'unplanned failover')} under this one approval. Reason:"
            f" {table_cell(plan['reason'])}"
        ),
        "",
        *_pair_table(plan),
        "",
        *[line for part in plan["pairs"] for line in _remarks(part)],
        *_moved_by_hand(plan),
        *_left_lines(plan),
        *flows_markdown(plan["flows"], plan["source"]),
        *[line for part in plan["pairs"] for line in _inexact_table(part)],
        *[
            line
            for part in plan["pairs"]
            for line in (f"### {plan['source']} to {part['target']}", "", pages.get(part["procedure_id"], ""), "")
        ],
        f"Digest of this plan: `{digest}`",
        "",
        *terms_markdown(plan["terms"]),
    ]
    return "\n".join(lines)


def _targets(plan: Mapping[str, Any]) -> str:
    return " and ".join(f"**{part['target']}**" for part in plan["pairs"])


def _pair_table(plan: Mapping[str, Any]) -> list[str]:
    return [
        "| clients go to | certainly lost there | possibly lost there | groups | positions exact | topics | run |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *[
            f"| {part['target']} | {part['certain']} | {'no bound' if part['possible'] is None else part['possible']} |"
            f" {len(part['groups'])} | {_exact(part)} | {part['topics']} | {table_cell(part['procedure_id'])} |"
            for part in plan["pairs"]
        ],
    ]


def _exact(part: Mapping[str, Any]) -> str:
    found = part["translation"]
    return "not translated yet" if found is None else f"{found['exact']} of {found['positions']}"


def _remarks(part: Mapping[str, Any]) -> Iterator[str]:
    if part["from_others"]:
        topics = first_few([f"{topic} ({alias})" for topic, alias in part["from_others"].items()], _SHOWN)
        yield (
            f"Of what {part['target']} lacks, the records of these topics were written on another cluster, which still"
            f" has them: {table_cell(topics)}."
        )
        yield ""


def _moved_by_hand(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield whose clients the routing record does not lead to their cluster."""
    for part in plan["pairs"]:
        if not part["routes"]:
            yield (
                f"**The routing record leads to {plan['pairs'][0]['target']}. No step points the clients of these"
                f" groups at {part['target']} ({table_cell(part['servers'])}); their owners must:**"
                f" {table_cell(first_few(part['groups'], _SHOWN)) or 'no group'}."
            )
            yield ""


def _left_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    if plan["left"]:
        named = [f"{group} ({', '.join(topics)})" for group, topics in plan["left"].items()]
        yield (
            "**Left behind: these groups get no position in these topics on any of the clusters, because none has the"
            f" topics:** {table_cell(first_few(named, _SHOWN))}."
        )
        yield ""


def _inexact_table(part: Mapping[str, Any]) -> list[str]:
    if not part["inexact"]:
        return []
    return [
        f"Positions on {part['target']} that are not exact, worst first:",
        "",
        "| group | partition | position | on the target | class | may read again | evidence |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *["| " + " | ".join(table_cell(cell) for cell in row) + " |" for row in part["inexact"]],
        "",
    ]


def lost_cluster_sentences(e: Mapping[str, Any]) -> list[str]:
    """Return sentences from the evidence `e` of a run of lost_cluster: its outcome, and each pair's state."""
    at = f" at {e['failing_step']}" if e["failing_step"] else ""
    parts = (e["plan"] or {}).get("pairs", ())
    ended = pair_outcomes(e["steps"])
    result = {
        Outcome.COMPLETED: f"All clients of {e['source']} were moved, pair by pair.",
        Outcome.REFUSED: f"The move of all clients of {e['source']} was refused{at}, before any client was moved.",
        Outcome.RETURNED: f"Not all clients of {e['source']} were moved; the runs of all pairs have ended.",
    }.get(Outcome(e["outcome"]), f"The move of all clients of {e['source']} stopped{at}.")
    pairs = [
        f"To {part['target']}: {ended.get(part['procedure_id'], 'see ' + part['procedure_id'])}." for part in parts
    ]
    return [result, *pairs]


def pair_outcomes(steps: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return procedure id of a pair's run -> its outcome, from the rows `steps` of a run's evidence."""
    for step in steps:
        if step["id"] == Step.FOLLOW_PAIRS:
            moved = dict.fromkeys(step["figures"].get("evidence_digests", ()), Outcome.COMPLETED.value)
            return moved or next((n["not_moved"] for n in reversed(step["notes"]) if "not_moved" in n), {})
    return {}


def lost_cluster_to_do(e: Mapping[str, Any]) -> list[str]:
    """Return what the operator has to do now, a sentence each, from the evidence `e` of a run of lost_cluster."""
    if e["outcome"] == Outcome.COMPLETED:
        return [f"When {e['source']} is back: failback, for each pair."]
    if e["outcome"] == Outcome.FAILED:
        return [
            shorten_text(e["reason_for_outcome"]),
            (
                "Clear the red step of each pair's run that stopped, as that run's page says; then clear follow_pairs"
                " with its downstream tasks."
            ),
        ]
    return [
        shorten_text(e["reason_for_outcome"]),
        (
            "Correct the cause. Then start unplanned_failover for each pair that was not moved, or, if none was, a new"
            " run of lost_cluster."
        ),
    ]
