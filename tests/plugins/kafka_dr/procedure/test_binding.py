"""A run acts only under the topology, addresses and clusters with which it began."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.config.params import check_params, refuse_beyond_limits
from kafka_dr.config.settings import load_topology
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.errors import ApprovalMissing, BadInput, BindingBroken
from kafka_dr.procedure import binding as binding_module
from kafka_dr.procedure.binding import bind_run, refuse_broken_binding, refuse_other_cluster, terms_of
from kafka_dr.procedure.entries import ProcedureOpened, StepRefused, TryBegun
from kafka_dr.procedures import PROCEDURES
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.steps.shared import open_procedure as opening_module
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.steps.shared.redirect_clients import RedirectClients
from kafka_dr.vocabulary import Entry, Step

from tests.support.bench import Bench
from tests.support.facts import open_run


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_bench: Callable[..., Bench]) -> Bench:
    """A planned failover that open_procedure has opened."""
    made = make_bench()
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(made.context())
    return made


def edit_topology(bench: Bench, **changes: Any) -> None:
    """Change the topology file, as somebody who deploys in the middle of a run."""
    bench.topology.write_text(yaml.safe_dump(yaml.safe_load(bench.topology.read_text()) | changes))


EDITS: dict[str, Callable[[Bench], None]] = {
    "kafka_primary": lambda bench: bench.addresses.update(kafka_primary="evil:9092"),
    "kafka_standby": lambda bench: bench.addresses.update(kafka_standby="evil:9092"),
    "probe_standby": lambda bench: bench.addresses.update(probe_standby="standby:9092 as admin"),
    "connect_standby": lambda bench: bench.addresses.update(connect_standby="http://evil"),
    "connect_primary": lambda bench: bench.addresses.update(connect_primary="http://evil"),
    "spark": lambda bench: bench.addresses.update(spark="spark://evil:7077"),
    "topology: digest": lambda bench: edit_topology(bench, cool_down_seconds=1),
    "standby: cluster id": lambda bench: setattr(bench.clusters["standby"], "id", "another"),
    "primary: cluster id": lambda bench: setattr(bench.clusters["primary"], "id", "another"),
}


def test_the_opening_names_clusters_addresses_and_topology(bench: Bench) -> None:
    """The journal holds both ids and servers, the digest, and the address of every connection but journal and API."""
    opened = bench.procedure().progress.done(ProcedureOpened)
    assert opened is not None and opened.binding is not None
    binding = opened.binding
    assert {alias: (c.id, c.bootstrap_servers) for alias, c in binding.clusters.items()} == {
        "primary": ("id-primary", "kafka_primary"),
        "standby": ("id-standby", "kafka_standby"),
    }
    stated = load_topology(bench.topology)
    assert binding.topology_digest == digest_of(stated.model_dump(mode="json", exclude_defaults=True))
    assert set(binding.addresses) == {
        *(f"{kind}_{alias}" for kind in ("kafka", "probe", "connect") for alias in ("primary", "standby")),
        "spark",
    }
    refuse_broken_binding(bench.procedure())


def test_a_probe_that_cannot_log_in_is_refused_before_anything_is_touched(
    tmp_path: Path, make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else only the fence would find it, while clients are stopped."""
    made = make_bench()
    read = made.connections.kafka

    def kafka(connection_id: str) -> dict[str, str]:
        kerberos = (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"} if connection_id == "probe_primary" else {}
        )
        return read(connection_id) | kerberos

    monkeypatch.setattr(made.connections, "kafka", kafka)
    with pytest.raises(AirflowFailException, match="cannot log in to primary by GSSAPI"):
        OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(made.context())
    assert made.procedure().progress.done(ProcedureOpened) is None


@pytest.mark.parametrize("named", EDITS)
def test_a_step_refuses_and_names_what_differs(bench: Bench, named: str) -> None:
    """The refusal is in the journal, nothing was intended, and the step goes on once the edit is taken back."""

    class Acting(ProcedureStep):
        acted = 0

        def act(self, procedure: Any, context: Any) -> Any:
            type(self).acted += 1
            raise BadInput("acted")

    before = dict(bench.addresses), bench.topology.read_text()
    EDITS[named](bench)
    step = Acting(task_id=Step.CHECK_READINESS.value)
    with pytest.raises(AirflowFailException, match="began with"):
        step.execute(bench.context())
    (refused,) = bench.procedure().progress.facts(StepRefused, Step.CHECK_READINESS)
    assert (refused.error, Acting.acted) == ("BindingBroken", 0) and named in refused.seen
    assert bench.procedure().progress.facts(TryBegun, Step.CHECK_READINESS) == []
    bench.addresses, _ = before
    bench.topology.write_text(before[1])
    for alias, cluster in bench.clusters.items():
        cluster.id = f"id-{alias}"
    with pytest.raises(AirflowFailException, match="acted"):
        step.execute(bench.context())


@pytest.mark.parametrize(
    ("here", "goes_on"), [("0.9.0", False), ("0.10.0", True), ("0.10.1", True), ("1.0.0", True), ("0.10.0rc1", True)]
)
def test_a_run_goes_on_in_its_version_or_a_newer_one(
    here: str, goes_on: bool, make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older version may not know what a newer one recorded: it refuses before it acts, and names both."""
    monkeypatch.setattr(opening_module, "__version__", "0.10.0")
    made = make_bench()
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(made.context())
    assert made.procedure().progress.opened.version == "0.10.0"
    monkeypatch.setattr(binding_module, "__version__", here)
    refused = pytest.raises(BindingBroken, match=f"newer version.*0.10.0 opened the run, this machine has {here}")
    with nullcontext() if goes_on else refused:
        refuse_broken_binding(made.procedure())


def test_an_edit_within_a_step_is_seen_where_the_address_is_used(make_bench: Callable[..., Bench]) -> None:
    """Redirect reads the connection after the step's beginning, and publishes no other servers."""
    bench = make_bench()
    bench.stopped()
    procedure = bench.procedure()
    refuse_broken_binding(procedure)
    bench.addresses["kafka_standby"] = "evil:9092"
    with pytest.raises(BindingBroken, match=r"kafka_standby: evil:9092, began with kafka_standby"):
        procedure.systems.connections.kafka("kafka_standby")
    with pytest.raises(BindingBroken):
        procedure.systems.with_own_clients().connections.kafka("kafka_standby")
    with pytest.raises(BindingBroken):
        procedure.reversed.systems.connections.kafka("kafka_standby")
    bench.tell(procedure, Step.OPEN_TARGET, Entry.OUTCOME, {})
    with pytest.raises(BindingBroken):
        RedirectClients(task_id=Step.REDIRECT_CLIENTS.value).act(procedure, bench.context())
    assert not (bench.folder / "routing.json").exists()
    bench.addresses.clear()
    RedirectClients(task_id=Step.REDIRECT_CLIENTS.value).act(procedure, bench.context())
    assert "kafka_standby" in (bench.folder / "routing.json").read_text()


def test_a_default_that_is_written_out_is_no_edit(bench: Bench) -> None:
    """The same topology in other words; a later version may have more settings with defaults."""
    edit_topology(bench, reconcile_seconds=120.0, approvers={"users": []})
    refuse_broken_binding(bench.procedure())


def test_a_cluster_that_is_silent_is_not_compared(bench: Bench) -> None:
    """A dead cluster must not keep a run from going on, such as after open_target."""
    bench.clusters["primary"].away = True
    refuse_broken_binding(bench.procedure())
    bench.clusters["standby"].id = "another"
    with pytest.raises(BindingBroken, match="standby: cluster id another"):
        refuse_broken_binding(bench.procedure())


def test_a_lost_source_is_not_asked_but_by_its_fence(make_bench: Callable[..., Bench]) -> None:
    """An unplanned failover takes the source's id from the last run, and compares the id before it acts there."""
    bench = make_bench()
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context())
    first = bench.procedure()
    bench.journal.release_lease(first.pair, first.id, first.lease.epoch, "completed")
    bench.dag_id, bench.clusters["primary"].away = "unplanned_failover", True
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context("r2"))
    procedure = bench.procedure("r2")
    opened = procedure.progress.done(ProcedureOpened)
    assert opened is not None and opened.binding is not None
    assert {alias: c.id for alias, c in opened.binding.clusters.items()} == {
        "primary": "id-primary",
        "standby": "id-standby",
    }
    bench.clusters["primary"].away, bench.clusters["primary"].id = False, "another"
    refuse_broken_binding(procedure)
    with pytest.raises(BindingBroken, match="primary: cluster id another"):
        refuse_other_cluster(procedure, "primary", procedure.systems.source)


def test_an_id_that_nobody_recorded_stays_unknown(make_bench: Callable[..., Bench]) -> None:
    """It is named as unknown, and a cluster that answers later is not refused for it."""
    bench = make_bench(dag_id="unplanned_failover")
    bench.clusters["primary"].away = True
    binding = bind_run(bench.procedure())
    assert binding.clusters["primary"].id is None and binding.clusters["standby"].id == "id-standby"


def test_another_cluster_behind_an_alias_is_named_in_the_plan(bench: Bench) -> None:
    """The approver sees that the last run had another cluster under this alias."""
    first = bench.procedure()
    bench.journal.release_lease(first.pair, first.id, first.lease.epoch, "refused")
    bench.clusters["standby"].id = "rebuilt"
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context("r2"))
    terms = terms_of(bench.procedure("r2"))
    assert terms["clusters"]["standby"]["other_id_before"] == "id-standby"
    assert terms["clusters"]["primary"]["other_id_before"] is None


def test_every_procedure_moves_under_a_binding() -> None:
    """Each procedure opens with open_procedure, which binds it; only abort_procedure acts for another one."""
    assert {dag_id for dag_id, row in PROCEDURES.items() if row.steps[0] != Step.OPEN_PROCEDURE} == {"abort_procedure"}


def test_runs_of_earlier_versions_are_bound_to_nothing(make_bench: Callable[..., Bench]) -> None:
    """Their openings name no cluster; such a run goes on as it began."""
    bench = make_bench()
    procedure = bench.procedure()
    open_run(procedure, bound=False)
    EDITS["kafka_standby"](bench)
    refuse_broken_binding(procedure)
    assert terms_of(procedure) == {}


def test_deadlines_that_differ_are_in_the_terms(make_bench: Callable[..., Bench]) -> None:
    """With the topology's value beside the run's."""
    bench = make_bench()
    bench.params |= {"max_fence_seconds": 60, "stable_seconds": 0.01}
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context())
    assert terms_of(bench.procedure())["deadlines"] == {"max_fence_seconds": (600.0, 60.0)}


@pytest.mark.parametrize(
    ("params", "refused"),
    [
        ({"stable_seconds": 1e-9}, "stable_seconds: 1e-09 s; at least 0.5 s"),
        ({"confirm_seconds": 4.9}, "confirm_seconds: 4.9 s; at least 5 s"),
        ({"slow_seconds": 0.1}, "slow_seconds: 0.1 s; at least 0.5 s"),
        ({"approval_valid_seconds": 86_401}, "approval_valid_seconds: 86401 s; at most 86400 s"),
    ],
)
def test_params_cannot_pass_the_limits(
    make_bench: Callable[..., Bench], params: dict[str, float], refused: str
) -> None:
    """A starter cannot loosen what has to be proven: the run is refused before it takes the lease."""
    bench = make_bench(dag_id="unplanned_failover", deadlines={})
    bench.params |= params
    with pytest.raises(AirflowFailException, match=refused):
        OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context())
    assert bench.journal.lease("primary+standby") is None
    bench.params |= {"confirm_seconds": 5, "approval_valid_seconds": 60, "stable_seconds": 2, "slow_seconds": 1}
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context())


def test_what_the_topology_states_is_a_limit_too(bench: Bench) -> None:
    """A site whose own deadline passes a limit may use this deadline, and no run may go beyond it."""
    edit_topology(bench, deadlines={"confirm_seconds": 2.0})
    topology = load_topology(bench.topology)
    given = {"source": "primary", "target": "standby", "reason": "x"}
    for usable in (given, given | {"confirm_seconds": 2.0}):
        refuse_beyond_limits(topology, check_params(topology, usable).deadlines)
    with pytest.raises(BadInput, match="confirm_seconds: 1 s; at least 2 s"):
        refuse_beyond_limits(topology, check_params(topology, given | {"confirm_seconds": 1.0}).deadlines)


DIGEST = "d" * 64


@pytest.mark.parametrize(
    ("approvers", "who", "roles", "refused"),
    [
        ({}, "bob", (), None),
        ({}, "switchback", (), "switchback is Switchback's own account"),
        ({"users": ["switchback"]}, "switchback", (), "switchback is Switchback's own account"),
        ({"users": ["bob"]}, "bob", (), None),
        ({"users": ["carol"]}, "bob", (), "bob is no approver; approvers by the topology: carol"),
        ({"users": ["carol"], "roles": ["Approver"]}, "bob", ("Approver", "Viewer"), None),
        ({"roles": ["Approver"]}, "bob", ("Viewer",), "bob is no approver; approvers by the topology: role Approver"),
        ({"users": ["Bob"]}, "bob", (), "bob is no approver"),
    ],
)
def test_only_approvers_approve(
    make_bench: Callable[..., Bench], approvers: dict[str, Any], who: str, roles: tuple[str, ...], refused: str | None
) -> None:
    """By user name or role; nobody named: everybody but the starter and Switchback's own account."""
    bench = make_bench(approvers=approvers)
    procedure = bench.opened()
    bench.api.roles[who] = frozenset(roles)
    bench.api.answer(Step.APPROVE_FAILOVER, f"Move? Plan {DIGEST}", responded_by_id="7", responded_by_name=who)
    if refused is None:
        assert procedure.approvals.require(Step.APPROVE_FAILOVER, DIGEST).by == who
        return
    with pytest.raises(ApprovalMissing, match=refused):
        procedure.approvals.require(Step.APPROVE_FAILOVER, DIGEST)


def test_the_opening_is_json(bench: Bench) -> None:
    """What the journal stores is read back as the same fact."""
    opened = bench.procedure().progress.done(ProcedureOpened)
    assert opened is not None
    assert ProcedureOpened.from_payload(json.loads(json.dumps(opened.payload()))) == opened


def test_a_run_made_again_under_its_id_keeps_the_approved_params(bench: Bench) -> None:
    """Somebody deletes the DAG run and triggers it again with other params: nobody approved those."""
    bench.params |= {"source": "standby", "target": "primary", "reason": "another", "max_fence_seconds": 3600}
    again = bench.procedure()
    opened = again.progress.done(ProcedureOpened)
    assert opened is not None and again.request.model_dump(mode="json") == opened.request
    assert (again.request.source, again.request.reason) == ("primary", "maintenance")
    assert again.pair == "primary+standby" and again.request.deadlines.max_fence_seconds == 600
