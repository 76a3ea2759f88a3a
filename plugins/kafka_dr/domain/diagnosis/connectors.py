"""The tree of the connectors: is each there and running, can it log in to both sides, why has a task failed?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_dr.domain.diagnosis.clusters import NOT_TRIED, ClusterReach, Reach
from kafka_dr.domain.diagnosis.traces import TraceKind, kind_of_trace
from kafka_dr.domain.diagnosis.tree import (
    DiagnosisEnd,
    DiagnosisQuestion,
    DiagnosisTree,
    NothingFound,
    Reply,
    Weight,
    walk_tree,
)


@dataclass(frozen=True)
class ConnectorFacts:
    """One connector of the flow.

    Attributes:
        kind: `source`, `checkpoint` or `heartbeat`.
        state: as Connect names it; "" if the connector does not exist.
        tasks: state by task id.
        traces: part that failed, such as `task 0` -> lines of its trace that name exceptions.
        needs_tasks: whether a topic or group is there for which the connector needs a task.
        logins: role of a cluster (`source`, `target`) -> what came of the login in the connector's configuration.
        own_logins: likewise, of Switchback's own login.
        resting: why the connector is stopped on purpose, if that is known: `opposite flow` or `procedure`.
    """

    name: str
    kind: str
    state: str = "RUNNING"
    tasks: Mapping[int, str] = field(default_factory=dict)
    traces: Mapping[str, str] = field(default_factory=dict)
    enabled: bool = True
    needs_tasks: bool = False
    logins: Mapping[str, ClusterReach] = field(default_factory=dict)
    own_logins: Mapping[str, ClusterReach] = field(default_factory=dict)
    resting: str = ""

    @property
    def works(self) -> bool:
        """Whether the tree finds nothing at all about the connector."""
        return walk_tree(CONNECTOR_TREE.root, self)[0] is None


CONNECTOR_MISSING = DiagnosisEnd(
    "connector_missing",
    "The Connect worker has no connector of the name that the topology states.",
    "Create the connector, or correct its name under `connectors` of the flow in the topology.",
)
FLOW_AT_REST = DiagnosisEnd(
    "flow_at_rest",
    "The connector is stopped while the opposite flow runs: clients work on the other cluster.",
    "Nothing, unless this direction was meant to replicate.",
    Weight.CHOICE,
)
HELD_BY_PROCEDURE = DiagnosisEnd(
    "held_by_procedure",
    "The connector is stopped while a procedure holds the clusters, which may have stopped it.",
    "Look at that procedure first; resume nothing before it has ended.",
    Weight.CHOICE,
)
CONNECTOR_STOPPED = DiagnosisEnd(
    "connector_stopped",
    "The connector is stopped or paused, and neither a procedure nor a running opposite flow explains why.",
    "Find out who stopped it, then resume it with PUT /connectors/NAME/resume. Under identity naming stop the opposite"
    " flow first.",
)
CONNECTOR_UNASSIGNED = DiagnosisEnd(
    "connector_unassigned",
    "Connect does not finish assigning the connector to its workers.",
    "Find out from the workers' logs why they rebalance, or which worker has left; Connect waits for it up to"
    " `scheduled.rebalance.max.delay.ms`.",
)
SOURCE_LOGIN_REFUSED = DiagnosisEnd(
    "source_login_refused",
    "The source refuses the login in the connector's configuration. MirrorMaker 2 logs `Failure during poll`, and the"
    " connector stays RUNNING without copying.",
    "Correct `source.cluster.sasl.jaas.config`, or the certificate, in the connector; or the user on the source.",
)
SOURCE_ADDRESS_WRONG = DiagnosisEnd(
    "source_address_wrong",
    "The connector's `source.cluster.bootstrap.servers` do not lead to the source, although the source answers"
    " Switchback.",
    "Correct `source.cluster.bootstrap.servers` and `source.cluster.security.protocol` of the connector.",
)
TARGET_LOGIN_REFUSED = DiagnosisEnd(
    "target_login_refused",
    "The target refuses the login in the connector's configuration, with which MirrorMaker 2 creates topics, writes"
    " offset syncs and group positions. Records are written with the worker's own login.",
    "Correct `target.cluster.sasl.jaas.config`, or the certificate, in the connector; or the user on the target.",
)
TARGET_ADDRESS_WRONG = DiagnosisEnd(
    "target_address_wrong",
    "The connector's `target.cluster.bootstrap.servers` do not lead to the target, although the target answers"
    " Switchback.",
    "Correct `target.cluster.bootstrap.servers` and `target.cluster.security.protocol` of the connector.",
)
TASK_LOGIN_REFUSED = DiagnosisEnd(
    "task_login_refused",
    "A task failed because a cluster refused its login; the logins in the connector's configuration that could be"
    " tried work, so it is a login that the configuration only refers to, or the worker's own.",
    "Correct the login where it is kept: the file or vault that the configuration names, `producer.override.` of the"
    " connector, or `producer.` and `admin.` in the worker's properties. Then restart the task.",
)
TASK_LACKS_RIGHTS = DiagnosisEnd(
    "task_lacks_rights",
    "A task failed because its principal lacks a right.",
    "Give MirrorMaker 2's principal the right that the trace names. Then restart the task.",
)
RECORD_TOO_LARGE = DiagnosisEnd(
    "record_too_large",
    "A task failed on a record that is larger than its producer, or the target's topic, accepts.",
    "Raise `producer.override.max.request.size` of the connector and `max.message.bytes` of the target's topic. Then"
    " restart the task.",
)
SETTING_REFUSED = DiagnosisEnd(
    "setting_refused",
    "The connector or a task could not be started because a setting is unusable, such as an address or a JAAS text.",
    "Correct the setting that the trace names.",
)
CLUSTER_DID_NOT_ANSWER = DiagnosisEnd(
    "cluster_did_not_answer",
    "A task failed because a cluster did not answer it, although it may answer now.",
    "Restart the task. If it fails again, look for what lies between the worker and that cluster.",
)
TASK_FAILED_OTHERWISE = DiagnosisEnd(
    "task_failed_otherwise",
    "A connector or task failed for a reason that Switchback does not know.",
    "Read the whole trace (GET /connectors/NAME/status) and the worker's log, mend the cause, then restart the task.",
)
CONNECTOR_DISABLED = DiagnosisEnd(
    "connector_disabled",
    "The connector has `enabled=false`: it runs without a task. A procedure disables the flow that must not run.",
    "Remove the setting only while the opposite flow is STOPPED.",
)
CONNECTOR_WITHOUT_TASKS = DiagnosisEnd(
    "connector_without_tasks",
    "The connector is RUNNING without a task, although there is something to copy: it could not list topics or groups.",
    "Search the worker's log for the connector's name. Most often a login that the configuration only refers to is"
    " wrong, or MirrorMaker 2's principal may not describe topics or groups. Then restart the connector.",
)


def _ask_exists(connector: ConnectorFacts) -> Reply:
    return Reply("yes" if connector.state else "no")


def _ask_state(connector: ConnectorFacts) -> Reply:
    tasks = ", ".join(f"task {task} {state}" for task, state in sorted(connector.tasks.items())) or "no tasks"
    stands = connector.state in ("STOPPED", "PAUSED")
    return Reply("yes" if stands else "no", f"{connector.name}: {connector.state}, {tasks}")


def _ask_resting(connector: ConnectorFacts) -> Reply:
    return Reply(connector.resting or "no")


def _login_question(
    role: str,
    refused: DiagnosisEnd,
    wrong: DiagnosisEnd,
    then: DiagnosisQuestion[ConnectorFacts],
) -> DiagnosisQuestion[ConnectorFacts]:
    """Return the question whether a connector's own login works on one side; `then`: what is asked if it does."""

    def ask(connector: ConnectorFacts) -> Reply:
        login, own = connector.logins.get(role, NOT_TRIED), connector.own_logins.get(role, NOT_TRIED)
        seen = f"login of {connector.name} to the {role}: {login.seen}"
        if own.reach in (Reach.UNREACHABLE, Reach.SILENT):
            return Reply("yes, or unknown")
        if login.reach is Reach.REFUSES_LOGIN:
            return Reply("refuses the login", seen)
        if login.reach in (Reach.UNREACHABLE, Reach.SILENT):
            return Reply("another address", seen)
        if login.cluster_id is not None and own.cluster_id not in (None, login.cluster_id):
            return Reply("another address", f"cluster id there {login.cluster_id}, of the {role} {own.cluster_id}")
        return Reply("yes, or unknown")

    return DiagnosisQuestion(
        f"Does the {role} answer the connector's own login?",
        ask,
        {"refuses the login": refused, "another address": wrong, "yes, or unknown": then},
    )


def _ask_assigned(connector: ConnectorFacts) -> Reply:
    states = {connector.state, *connector.tasks.values()}
    # Also a task that is still PAUSED or STOPPED though its connector runs.
    waits = "FAILED" not in states and states != {"RUNNING"}
    return Reply("no" if waits else "yes")


def _ask_failed(connector: ConnectorFacts) -> Reply:
    failed = "FAILED" in {connector.state, *connector.tasks.values()}
    return Reply("yes" if failed else "no")


def _ask_trace(connector: ConnectorFacts) -> Reply:
    texts = [f"{part}: {text}" for part, text in connector.traces.items()]
    return Reply(kind_of_trace("\n".join(connector.traces.values())).value, "; ".join(texts)[:1_000])


def _ask_enabled(connector: ConnectorFacts) -> Reply:
    return Reply("yes" if connector.enabled else "no")


def _ask_tasks(connector: ConnectorFacts) -> Reply:
    return Reply("no" if connector.needs_tasks and not connector.tasks else "yes")


_TASKS = DiagnosisQuestion[ConnectorFacts](
    "Has it a task, if there is something to copy?",
    _ask_tasks,
    {"no": CONNECTOR_WITHOUT_TASKS, "yes": NothingFound("the connector is in order")},
)
_ENABLED = DiagnosisQuestion[ConnectorFacts]("Is it enabled?", _ask_enabled, {"no": CONNECTOR_DISABLED, "yes": _TASKS})
_FAILED = DiagnosisQuestion[ConnectorFacts](
    "Has it, or a task of it, failed?",
    _ask_failed,
    {
        "yes": DiagnosisQuestion(
            "What does the trace say?",
            _ask_trace,
            {
                TraceKind.LOGIN: TASK_LOGIN_REFUSED,
                TraceKind.RIGHTS: TASK_LACKS_RIGHTS,
                TraceKind.TOO_LARGE: RECORD_TOO_LARGE,
                TraceKind.SETTING: SETTING_REFUSED,
                TraceKind.NO_ANSWER: CLUSTER_DID_NOT_ANSWER,
                TraceKind.OTHER: TASK_FAILED_OTHERWISE,
            },
        ),
        "no": _ENABLED,
    },
)
_ASSIGNED = DiagnosisQuestion[ConnectorFacts](
    "Has Connect assigned and started it, with its tasks?",
    _ask_assigned,
    {"no": CONNECTOR_UNASSIGNED, "yes": _FAILED},
)
# A connector that cannot log in may also stay UNASSIGNED, or fail: so the logins are asked about first.
_TARGET = _login_question("target", TARGET_LOGIN_REFUSED, TARGET_ADDRESS_WRONG, _ASSIGNED)
_SOURCE = _login_question("source", SOURCE_LOGIN_REFUSED, SOURCE_ADDRESS_WRONG, _TARGET)

CONNECTOR_TREE = DiagnosisTree[ConnectorFacts](
    "connectors",
    lambda connector: connector.name,
    DiagnosisQuestion(
        "Does the connector exist?",
        _ask_exists,
        {
            "no": CONNECTOR_MISSING,
            "yes": DiagnosisQuestion(
                "Is it stopped or paused?",
                _ask_state,
                {
                    "yes": DiagnosisQuestion(
                        "Is it stopped on purpose?",
                        _ask_resting,
                        {"opposite flow": FLOW_AT_REST, "procedure": HELD_BY_PROCEDURE, "no": CONNECTOR_STOPPED},
                    ),
                    "no": _SOURCE,
                },
            ),
        },
    ),
)
