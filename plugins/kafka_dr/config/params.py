"""A run's params, checked against the topology before any cluster is changed.

Airflow hands unknown params to a DAG without an error, so that a misspelt deadline would keep its default; this module
refuses unknown params.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from kafka_dr.config.choices import CHOICES, invisible_in, quoted_value, reason_problem
from kafka_dr.config.deadlines import Deadlines
from kafka_dr.config.fields import Model
from kafka_dr.config.topology import Flow, Topology
from kafka_dr.domain.mirror_maker.patterns import ALL, Kind, list_items, pattern_problem
from kafka_dr.errors import BadInput, Refusal
from kafka_dr.procedures import TopicChoice

LONGEST_GROUP = 250
MOST_EXCLUDED = 1000
_UNUSABLE = "the params cannot be used"
_CORRECT = "correct the params and start a new run; this attempt changed nothing"
_KINDS: Mapping[str, Kind] = {"topics": "topic", "groups": "group"}
_SWITCHES = ("start_reverse_replication", "abort_open_transactions")
_PLAIN = frozenset({"source", "target", "reason", "topics", "groups", *_SWITCHES, "exclude_groups"})


class Request(Model):
    """A run's checked params.

    Attributes:
        topics: `.*`, all topics of the flow, unless the procedure takes chosen topics: of others, `check_params`
            refuses a narrower choice for now.
        groups: always `.*`, all groups of the flow: `check_params` refuses a narrower choice for now.
        deadlines: the topology's deadlines, overridden by the run's params.
        start_reverse_replication: whether the reverse flow is started at the end of the run, so that the new primary
            has a standby.
        abort_open_transactions: whether transactions that stay open after the fence are aborted.
        exclude_groups: group for which the run does not wait -> reason; the group's policy decides its positions.
        choices: params that only some procedures take, as far as they were given.
    """

    source: str
    target: str
    reason: str
    topics: str = ALL
    groups: str = ALL
    deadlines: Deadlines = Deadlines()
    start_reverse_replication: bool = False
    abort_open_transactions: bool = False
    exclude_groups: dict[str, str] = {}
    choices: dict[str, Any] = {}


def check_params(
    topology: Topology, params: Mapping[str, Any], foreign: Collection[str] = (), topics: TopicChoice = "all"
) -> Request:
    """Return a run's checked params; refuse params that cannot be used.

    Args:
        topology: defines the clusters and flows.
        params: Airflow's params of the run; null means not given.
        foreign: params that only other procedures take; they are refused, because this procedure would ignore them.
        topics: whether `topics` stands for all of the flow's topics, may choose some of them, or must name some.

    Raises:
        BadInput: all problems at once; `problems` lists them line by line.
    """
    given = {key: value for key, value in params.items() if value is not None}
    problems = [*_unknown(given, foreign)]
    problems += [
        problem
        for check in (_ends, _further_targets, _reason, *_TOPIC_CHECKS[topics], _switches, _excluded)
        for problem in check(topology, given)
    ]
    deadlines, deadline_problems = _deadlines(topology, given)
    choices, choice_problems = _choices(given)
    problems += deadline_problems + choice_problems
    if problems:
        raise bad_input(_UNUSABLE, problems, _CORRECT)
    plain = ("source", "target", *_SWITCHES, *(() if topics == "all" else ("topics",)))
    plain_params = {key: given[key] for key in plain if key in given}
    excluded = {group: why.strip() for group, why in sorted(given.get("exclude_groups", {}).items())}
    return Request(
        reason=given["reason"].strip(), deadlines=deadlines, choices=choices, exclude_groups=excluded, **plain_params
    )


def bad_input(what: str, problems: list[str], next_step: str) -> BadInput:
    """Return an error whose text and whose attribute `problems` list all problems."""
    error = BadInput(
        f"{what}: {len(problems)} problem{'s' if len(problems) > 1 else ''}", "\n  " + "\n  ".join(problems), next_step
    )
    error.problems = tuple(problems)
    return error


def _unknown(given: Mapping[str, Any], foreign: Collection[str]) -> Iterator[str]:
    allowed = sorted({*_PLAIN, *Deadlines.model_fields, *CHOICES} - {*foreign})
    for key in given:
        if key not in allowed:
            why = "this procedure does not take it" if key in foreign else "no such param"
            yield f"{quoted_value(key)}: {why}; params: {', '.join(allowed)}"


def _ends(topology: Topology, given: Mapping[str, Any]) -> Iterator[str]:
    both_known = True
    for end in ("source", "target"):
        if given.get(end) not in topology.aliases:
            both_known = False
            problem = f"{quoted_value(given[end])} is not a cluster" if end in given else "missing"
            yield f"{end}: {problem}; clusters of the topology: {', '.join(topology.aliases)}"
    if both_known and given["source"] == given["target"]:
        yield f"target: the same cluster as the source, {quoted_value(given['source'])}; name two different clusters"
    elif both_known and topology.find_flow(given["source"], given["target"]) is None:
        flows = ", ".join(f"{flow.source}->{flow.target}" for flow in topology.flows)
        yield f"target: no flow replicates {given['source']}->{given['target']}; flows: {flows}"


def _further_targets(topology: Topology, given: Mapping[str, Any]) -> Iterator[str]:
    text, source = given.get("other_targets", ""), given.get("source")
    named = [given.get("target"), *(list_items(text) if isinstance(text, str) else ())]
    for number, alias in enumerate(named[1:], 1):
        if alias in (source, *named[:number]):
            yield f"other_targets: {quoted_value(alias)} is named twice; name each cluster once"
        elif alias not in topology.aliases or topology.find_flow(str(source), alias) is None:
            reached = ", ".join(flow.target for flow in topology.flows if flow.source == source)
            yield f"other_targets: no flow replicates {source}->{quoted_value(alias)}; its flows lead to: {reached}"
    if named[1:] and "override_source_lost" in given:
        yield (
            "override_source_lost: a source that may answer is left for one cluster only, because the run of one pair"
            " could open it while clients work on another one; leave other_targets out"
        )


def _reason(_: Topology, given: Mapping[str, Any]) -> Iterator[str]:
    if problem := reason_problem(given.get("reason"), "state why this run is made"):
        yield f"reason: {problem}"


def _patterns(_: Topology, given: Mapping[str, Any]) -> Iterator[str]:
    for key, kind in _KINDS.items():
        text = given.get(key, ALL)
        if not isinstance(text, str) or not text.strip():
            yield (
                f"{key}: {quoted_value(text)}; expected regular expressions, separated by commas; leave {key} out for"
                " all of the flow"
            )
        elif problem := pattern_problem(text, kind):
            yield f"{key}: {problem}"


def _narrower(topology: Topology, given: Mapping[str, Any]) -> Iterator[str]:
    flow = _flow(topology, given)
    for key, kind in _KINDS.items():
        text = given.get(key, ALL)
        usable = isinstance(text, str) and text.strip() and not pattern_problem(text, kind)
        if usable and not _all_of_flow(text, key, flow):
            yield (
                f"{key}: {quoted_value(text)} is narrower than the flow. Moving one application alone needs its topics"
                f" taken out of the running flow, which is not built yet. Leave {key} out to move all of the flow"
            )


def _chosen_topics(_: Topology, given: Mapping[str, Any]) -> Iterator[str]:
    text = given.get("topics")
    if not isinstance(text, str) or not text.strip():
        yield (
            f"topics: {quoted_value(text) if text is not None else 'missing'}; expected topics of the source: names or"
            " regular expressions, separated by commas; `.*` for all of the flow"
        )
    elif problem := pattern_problem(text, "topic"):
        yield f"topics: {problem}"


#: Choice of topics -> the checks of the params `topics` and `groups`.
_TOPIC_CHECKS: Mapping[TopicChoice, tuple[Callable[[Topology, Mapping[str, Any]], Iterator[str]], ...]] = {
    "all": (_patterns, _narrower),
    "some": (_patterns,),
    "named": (_chosen_topics,),
}


def _all_of_flow(text: str, key: str, flow: Flow | None) -> bool:
    items = set(list_items(text))
    return ALL in items or (flow is not None and items == set(list_items(flow.mirror_maker.get(key, ALL))))


def _flow(topology: Topology, given: Mapping[str, Any]) -> Flow | None:
    source, target = given.get("source"), given.get("target")
    return topology.find_flow(source, target) if isinstance(source, str) and isinstance(target, str) else None


def _switches(_: Topology, given: Mapping[str, Any]) -> Iterator[str]:
    for key in _SWITCHES:
        if not isinstance(given.get(key, False), bool):
            yield f"{key}: {quoted_value(given[key])}; expected true or false"


def _excluded(_: Topology, given: Mapping[str, Any]) -> Iterator[str]:
    excluded = given.get("exclude_groups", {})
    if not isinstance(excluded, Mapping):
        yield (
            f'exclude_groups: {quoted_value(excluded)}; expected a map of group to reason, such as {{"reports": "its'
            ' owner is on holiday"}'
        )
        return
    if len(excluded) > MOST_EXCLUDED:
        yield f"exclude_groups: {len(excluded)} groups; at most {MOST_EXCLUDED}"
    for group, reason in list(excluded.items())[:MOST_EXCLUDED]:
        problem = _group_problem(group) or reason_problem(reason, "state why the run does not wait for this group")
        if problem:
            yield f"exclude_groups[{quoted_value(group)}]: {problem}"


def _group_problem(group: Any) -> str | None:
    if not isinstance(group, str) or not group.strip() or len(group) > LONGEST_GROUP:
        return f"not a group name; expected 1 to {LONGEST_GROUP} characters"
    if "*" in group:
        return "expected one group by its whole name, no wildcard"
    return f"contains the control or invisible character {odd!a}" if (odd := invisible_in(group)) else None


def _deadlines(topology: Topology, given: Mapping[str, Any]) -> tuple[Deadlines, list[str]]:
    stated = topology.deadlines
    overrides = {key: given[key] for key in Deadlines.model_fields if key in given}
    try:
        deadlines = Deadlines(**(stated.model_dump() | overrides))
    except ValidationError as error:
        return stated, [
            f"{key}: {quoted_value(overrides[key])}; expected seconds: {_expected(fault)}"
            for fault in error.errors()
            for key in map(str, fault["loc"][:1])
        ]
    return deadlines, []


def refuse_beyond_limits(topology: Topology, deadlines: Deadlines) -> None:
    """Refuse deadlines by which a run would prove less than the topology's `limits` and `deadlines` demand.

    Raises:
        BadInput: all such deadlines at once.
    """
    problems = []
    for limit, seconds in topology.limits.model_dump().items():
        which, _, name = limit.partition("_")
        stated, value = getattr(topology.deadlines, name), getattr(deadlines, name)
        bound = min(seconds, stated) if which == "least" else max(seconds, stated)
        if value < bound if which == "least" else value > bound:
            problems.append(f"{name}: {value:g} s; at {which} {bound:g} s, by `limits` or `deadlines` in the topology")
    if problems:
        raise bad_input(_UNUSABLE, problems, _CORRECT)


def refuse_abandoned_start(topology: Topology, age: float, *, cleared: bool) -> None:
    """Refuse a run that its starter may have given up, who is one of the two people that a run needs.

    Whoever may clear runs or pause DAGs could otherwise let another person's old run begin, and approve it alone.

    Args:
        age: how many seconds ago the run was triggered.
        cleared: whether the run was cleared before it was opened.

    Raises:
        Refusal: the run was cleared, or is older than an approval may be.
    """
    limit = topology.limits.most_approval_valid_seconds
    if cleared or age > limit:
        raise Refusal(
            "This run begins without its starter",
            "it was cleared before it was opened"
            if cleared
            else f"it was triggered {age:.0f} s ago, and its start counts for {limit:.0f} s",
            "Start a new run; nothing was touched.",
        )


def _choices(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    choices, problems = {}, []
    for key in (key for key in CHOICES if key in given):
        try:
            choices[key] = TypeAdapter(CHOICES[key]).validate_python(given[key], strict=True)
        except ValidationError as error:
            problems.append(f"{key}: {quoted_value(given[key])}; {_expected(error.errors()[0])}")
    return choices, problems


def _expected(fault: Mapping[str, Any]) -> str:
    message: str = fault["msg"]
    return message.removeprefix("Input should be ").removeprefix("Value error, ")
