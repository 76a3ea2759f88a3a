"""Plan a change of a flow: observe both clusters and the flow's connectors, and refuse what would do harm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kafka_dr.actions.fencing.rules import source_rules
from kafka_dr.actions.flow_change.added_topics import excluded_intervals, refuse_latest
from kafka_dr.actions.flow_change.changed_flow import changed_flow
from kafka_dr.actions.flow_change.loops import refuse_common_names
from kafka_dr.actions.readiness.owners import owner_view
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.mirror_maker.flow_filter import FlowFilter
from kafka_dr.domain.mirror_maker.patterns import group_filter_of
from kafka_dr.domain.plain_text import first_few
from kafka_dr.domain.readiness.connect_checks import hook_blockers
from kafka_dr.domain.readiness.owners import owner_blockers
from kafka_dr.domain.replication.change_plan import ChangePlan, ConnectorChange, change_plan_of
from kafka_dr.domain.replication.flow_change import (
    PatternEffect,
    RequestedChange,
    changed_config,
    effect_of,
    is_internal_topic,
    problems_of,
    with_changes,
)
from kafka_dr.domain.replication.tuning import SYNCS_LOCATION, ConnectorKind
from kafka_dr.errors import Contradiction, NotReady, Refusal
from kafka_dr.hooks.connect.flow_connectors import FlowConnectors
from kafka_dr.procedure.binding import terms_of
from kafka_dr.procedure.entries import ChangedFlowStopped, ChangePlanned
from kafka_dr.procedure.run import Run

_NOTHING = "Nothing was changed."
_RUNNING, _STOPPED = ("RUNNING", "FAILED"), "STOPPED"


@dataclass(frozen=True)
class ObservedFlow:
    """A flow as it is.

    Attributes:
        configs: connector -> its configuration without secrets, source connectors first.
        runs: connector -> whether it runs, or has failed; otherwise it is STOPPED.
        version: version of the Connect worker.
        topics: alias -> topics of this cluster, the source first; `groups` likewise.
    """

    configs: Mapping[str, Mapping[str, str]]
    runs: Mapping[str, bool]
    version: str
    topics: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, tuple[str, ...]]


def refuse_unchangeable_flow(procedure: Run) -> None:
    """Refuse a flow whose connectors cannot be stopped, or whose offsets cannot be set.

    Raises:
        Refusal: the Connect worker is older than Kafka 3.6; or without one the stop hook cannot start the flow, or does
            not report its settings.
        NotReady: a connector that the topology names does not exist.
    """
    flow, worker = procedure.flow, changed_flow(procedure)
    name = f"{flow.source}->{flow.target}"
    if flow.connect is None:
        _refuse_hook(name, procedure.mirror_maker(flow))
        return
    missing = sorted({*worker.names} - {*worker.existing()})
    if missing:
        raise NotReady(
            f"Connectors of the flow {name} do not exist",
            first_few(missing),
            f"{_NOTHING} Correct `connectors` of this flow in the topology, or create these connectors.",
        )
    old = [
        source for source in worker.sources if not procedure.systems.connect_worker(flow.worker).sets_offsets(source)
    ]
    if old:
        raise Refusal(
            f"The Connect worker of the flow {name} cannot set offsets",
            f"Kafka {worker.worker().version} does not know the request for {first_few(old)}",
            f"{_NOTHING} Run Connect workers of Kafka 3.6 or later. Until then: stop all producers of the flow, wait"
            " two minutes, and change the configuration with PUT /connectors/NAME/config; every record that is written"
            " meanwhile may be copied twice.",
        )


def _refuse_hook(name: str, connectors: FlowConnectors) -> None:
    """Refuse a flow without a Connect worker whose stop hook does not do what a change needs."""
    blockers = [
        (f"{one.reason}: {one.seen}", one.next_step)
        for one in hook_blockers(name, connectors.can_resume(), connectors.offsets_problem())
    ]
    if connectors.with_kept_settings() is None:
        blockers.append(
            (
                "the stop hook's answer to GET /state lacks `settings`",
                "Let the stop hook report with which settings the processes start next, as its contract says.",
            )
        )
    for seen, next_step in blockers:
        raise Refusal(
            f"The flow {name} runs without a Connect worker, and its stop hook does not suffice",
            seen,
            f"{_NOTHING} {next_step} Then start a new run.",
        )


def observe_flow(procedure: Run) -> ObservedFlow:
    """Return the flow as it is.

    Raises:
        NotReady: a connector is neither RUNNING, FAILED nor STOPPED.
    """
    worker, source, target = changed_flow(procedure), procedure.systems.source, procedure.systems.target
    statuses = [worker.status(name) for name in worker.names]
    others = [f"{status.name} {status.state}" for status in statuses if status.state not in (*_RUNNING, _STOPPED)]
    if others:
        raise NotReady(
            "A connector is neither running nor STOPPED",
            first_few(others),
            f"{_NOTHING} Resume or stop it, as is meant; then start a new run.",
        )
    aliases = (procedure.request.source, procedure.request.target)
    return ObservedFlow(
        configs={name: worker.config(name) for name in worker.names},
        runs={status.name: status.state != _STOPPED for status in statuses},
        version=worker.worker().version,
        topics={alias: tuple(sorted(one.topics())) for alias, one in zip(aliases, (source, target), strict=True)},
        groups={alias: tuple(sorted(one.groups())) for alias, one in zip(aliases, (source, target), strict=True)},
    )


def make_change_plan(procedure: Run) -> ChangePlan:
    """Return the plan of the change that the run's params ask for.

    Raises:
        Refusal, NotReady: the change cannot be made, or would do harm; the error lists what each pattern matches.
    """
    change = RequestedChange.of(procedure.request.choices)
    refuse_unchangeable_flow(procedure)
    view = observe_flow(procedure)
    _refuse_owner(procedure, view)
    wanted = _wanted_settings(procedure, change, view)
    after = {name: with_changes(config, wanted[name]) for name, config in view.configs.items()}
    before_filter, after_filter = _filter_of(procedure, view.configs, view), _filter_of(procedure, after, view)
    source_topics = view.topics[procedure.request.source]
    selected = _selected(before_filter, source_topics), _selected(after_filter, source_topics)
    checkpoint = procedure.flow.connectors.checkpoint.name
    source_groups = view.groups[procedure.request.source]
    groups = tuple({*filter(group_filter_of(of[checkpoint]), source_groups)} for of in (view.configs, after))
    effects = list(_effects(procedure, change, view, selected, (groups[0], groups[1])))
    _refuse_mirrored_twice(procedure, after_filter, source_topics)
    _refuse_harm(change, effects, wanted)
    refuse_common_names(procedure, {name: after[name] for name in procedure.flow.connectors.source})
    added = selected[1] - selected[0]
    refuse_latest(procedure, added, after_filter)
    return ChangePlan(
        procedure_id=procedure.id,
        source=procedure.request.source,
        target=procedure.request.target,
        reason=procedure.request.reason,
        connectors={
            name: ConnectorChange({key: config.get(key) for key in wanted[name]}, wanted[name])
            for name, config in view.configs.items()
        },
        running=tuple(name for name, runs in view.runs.items() if runs),
        adds=tuple(sorted(added)),
        drops=tuple(sorted(selected[0] - selected[1])),
        adds_groups=tuple(sorted(groups[1] - groups[0])),
        drops_groups=tuple(sorted(groups[0] - groups[1])),
        intervals=tuple(excluded_intervals(procedure, added)),
        skips=change.skip_interval,
        effects=tuple(_effect_line(effect) for effect in effects),
        notes=tuple(_notes(procedure, view, after)),
        edited_by_hand=procedure.flow.connect is None,
        config_digests={name: digest_of(dict(config)) for name, config in view.configs.items()},
        cool_down=procedure.progress.cool_down,
        terms=terms_of(procedure),
    )


def planned_change(procedure: Run) -> ChangePlan:
    """Return the plan of this run, from the journal.

    Raises:
        Contradiction: the plan does not match its digest.
    """
    planned = procedure.progress.with_plan(procedure.progress.require(ChangePlanned))
    plan = change_plan_of(planned.whole_plan)
    if plan.digest != planned.plan_digest:
        raise Contradiction(
            "The plan of the change does not match its digest in the journal",
            f"the plan's SHA-256 in the journal is {planned.plan_digest[:12]}..., the plan has {plan.digest[:12]}...",
            "Start a new run, which plans the change again, once this run has returned.",
        )
    return plan


def refuse_other_configuration(procedure: Run, plan: ChangePlan) -> None:
    """Refuse if a connector's configuration is neither the one that was planned, and approved, nor the changed one.

    Settings that a person edits must be the planned ones until the flow was stopped.

    Raises:
        Contradiction: names the connectors.
    """
    worker = changed_flow(procedure)
    configs = {name: worker.config(name) for name in plan.config_digests}
    if plan.edited_by_hand and procedure.progress.done(ChangedFlowStopped) is None:
        other = [name for name, digest in plan.config_digests.items() if digest_of(configs[name]) != digest]
    else:
        other = [name for name, config in configs.items() if not _is_planned(plan, name, config)]
    if other:
        raise Contradiction(
            "The configuration of the flow was changed after the plan was made",
            first_few(other),
            "Find out which user or program changes these connectors; then start a new run, which plans it again.",
        )


def _is_planned(plan: ChangePlan, name: str, config: Mapping[str, str]) -> bool:
    """Whether a configuration is the planned one, in which a part of the changes may be made already."""
    # What a person edits is one file, which all connectors read.
    changes = list(plan.connectors.values()) if plan.edited_by_hand else [plan.connectors[name]]
    former = {key: value for change in changes for key, value in change.former.items()}
    wanted = {key: value for change in changes for key, value in change.wanted.items()}
    own = all(config.get(key) in (former[key], value) for key, value in wanted.items())
    return own and digest_of(with_changes(config, former)) == plan.config_digests[name]


def _refuse_owner(procedure: Run, view: ObservedFlow) -> None:
    owners = owner_view(procedure, {}, view.configs, [procedure.flow])
    blockers = list(owner_blockers(owners))
    if blockers and not owners.acknowledged:
        raise NotReady(
            "Somebody else owns the connectors of the flow",
            "; ".join(f"{one.reason} ({one.seen})" for one in blockers),
            f"{_NOTHING} Change the flow where its owner keeps it. If the owner does not act during this run: start a"
            " new run with acknowledge_owner.",
        )


def _wanted_settings(procedure: Run, change: RequestedChange, view: ObservedFlow) -> dict[str, dict[str, str | None]]:
    """Return by connector the settings that change; refuse a connector that is not the flow's, or is not named."""
    sources = procedure.flow.connectors.source
    if (change.connector or sources[0]) not in sources:
        raise Refusal(
            f"The flow has no source connector {change.connector!a}",
            f"source connectors in the topology: {first_few(sources)}",
            f"{_NOTHING} Start a new run with one of these in the param connector.",
        )
    if change.patterns("topic") and len(sources) > 1 and change.connector is None:
        raise Refusal(
            "Several source connectors share the flow, and the params name none",
            first_few(sources),
            f"{_NOTHING} Start a new run with the one whose topics change in the param connector.",
        )
    chosen = {change.connector} if change.connector else {*sources}
    return {
        name: changed_config(
            change if name in chosen or name not in sources else RequestedChange(),
            ConnectorKind.SOURCE if name in sources else ConnectorKind.CHECKPOINT,
            config,
            view.version,
        )
        for name, config in view.configs.items()
    }


def _filter_of(procedure: Run, configs: Mapping[str, Mapping[str, str]], view: ObservedFlow) -> FlowFilter:
    sources = {name: configs[name] for name in procedure.flow.connectors.source}
    return FlowFilter(sources, procedure.naming, procedure.flow.target, view.version)


def _selected(mirrors: FlowFilter, topics: Iterable[str]) -> set[str]:
    return {topic for topic in topics if mirrors.selects(topic)}


def _effects(
    procedure: Run,
    change: RequestedChange,
    view: ObservedFlow,
    topics: tuple[set[str], set[str]],
    groups: tuple[set[str], set[str]],
) -> Iterator[PatternEffect]:
    internal = {
        topic for there in view.topics.values() for topic in there if is_internal_topic(procedure.naming, topic)
    }
    for pattern, is_added in change.patterns("topic"):
        yield effect_of(pattern, is_added, "topic", view.topics, topics, internal)
    for pattern, is_added in change.patterns("group"):
        yield effect_of(pattern, is_added, "group", view.groups, groups, ())


def _refuse_harm(
    change: RequestedChange,
    effects: Iterable[PatternEffect],
    wanted: Mapping[str, Mapping[str, str | None]],
) -> None:
    problems = [text for effect in effects for text in problems_of(effect, change.names_to_come)]
    if problems:
        raise Refusal(
            "A pattern does not do what was meant",
            "; ".join(problems),
            f"{_NOTHING} Correct the pattern, and start a new run. A pattern is a Java regular expression that must"
            " match the whole name: `orders.*` matches all names that begin with orders. For names that will be created"
            " later set names_to_come.",
        )
    if not any(wanted.values()):
        asked = {**change.settings} or [pattern for kind in ("topic", "group") for pattern, _ in change.patterns(kind)]
        raise Refusal(
            "There is nothing to change",
            f"the connectors have this already: {asked}" if asked else "the params ask for no change",
            f"{_NOTHING} Name what to change in add_topics, remove_topics, add_groups, remove_groups or settings.",
        )


def _refuse_mirrored_twice(procedure: Run, mirrors: FlowFilter, topics: Iterable[str]) -> None:
    twice = mirrors.mirrored_twice(topics)
    if twice:
        shown = [f"{' and '.join(names)}: {first_few(found, 5)}" for names, found in twice.items()]
        raise Refusal(
            "Several source connectors would mirror the same topics",
            f"on {procedure.request.source}: {first_few(shown, 5, '; ')}",
            f"{_NOTHING} Start a new run that takes these topics out of one of these connectors first.",
        )


def _effect_line(effect: PatternEffect) -> str:
    matched = ", ".join(f"{len(names)} on {alias}" for alias, names in effect.matches.items())
    verb = "adds" if effect.is_added else "drops"
    return f"{effect.title}: matches {matched}; {verb} {first_few(effect.changes, 12) or 'nothing that exists now'}"


def _notes(procedure: Run, view: ObservedFlow, after: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    flow, source = procedure.flow, procedure.flow.connectors.source[0]
    location = after[source].get(SYNCS_LOCATION, "source")
    if location == "source" and (why := _why_no_syncs(procedure)):
        yield (
            f"{why} MirrorMaker 2 writes no offset syncs there, so no group's position is translated. Set"
            f" {SYNCS_LOCATION}=target in the param settings."
        )
    if location != view.configs[source].get(SYNCS_LOCATION, "source"):
        yield "Offset syncs go to another topic from now on; MirrorMaker 2 translates no position of before."
    if flow.mirror_maker.keys() & {"topics", "topics.exclude", "groups", "groups.exclude"}:
        yield "The topology states filters of this flow, which count while Connect does not answer: change them, too."


def _why_no_syncs(procedure: Run) -> str:
    """Return why MirrorMaker 2 may not write its offset syncs on the source; "" if it may, or if that is unknown."""
    source = procedure.request.source
    principals = procedure.topology.cluster(source).principals.mirror_maker
    topic = procedure.naming.offset_syncs_topic(procedure.request.target)
    rules = source_rules(procedure)
    if not principals or not rules.authorizer or rules.rights_elsewhere:
        return ""
    exists = topic in procedure.systems.source.topics([topic])
    needed = ["write", *([] if exists else ["create"])]
    lacking = [right for right in needed if not any(rules.may(one, right, "topic", topic) for one in principals)]
    return f"{first_few(sorted(principals))} may not {' and '.join(lacking)} {topic} on {source}." if lacking else ""
