"""Every DAG obeys the house's policy."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization
from kafka_dr.config.choices import LONGEST_REASON
from kafka_dr.config.params import check_params
from kafka_dr.config.settings import Deadlines, Topology
from kafka_dr.dag_policy import flow_form, procedure_form
from kafka_dr.errors import BadInput
from kafka_dr.procedures import PROCEDURES, foreign_params
from kafka_dr.vocabulary import Step

from tests.support.bench import Bench

#: Without a cluster: only whether a param is known is looked at.
NO_TOPOLOGY = Topology.model_construct(clusters={}, flows=(), deadlines=Deadlines())
GIVEN = {"source": "a", "target": "b", "reason": "r"}


#: They watch for as long as they are unpaused, and move no client.
ALWAYS = ("readiness_check", "record_positions", "watch_old_source", "schedule_drills")


def checked(given: dict[str, Any]) -> dict[str, Any]:
    """Params as Airflow validates them."""
    params = ParamsDict(procedure_form("planned_failover"))
    params.update(given)
    return params.validate()


def test_all_files_parse_and_hold_one_dag_each(dag_bag: Any, root: Path) -> None:
    """No import errors; one DAG a file, with the file's own name."""
    assert dag_bag.import_errors == {}
    assert sorted(dag_bag.dags) == sorted(p.stem for p in (root / "dags").glob("*.py"))


def test_every_dag_is_documented_tagged_and_started_by_hand(dag_bag: Any) -> None:
    """The operator's page is in the DAG; nothing that moves clients runs by a schedule."""
    for dag in dag_bag.dags.values():
        for heading in ("When to run", "Before you start", "If it stops"):
            assert heading in dag.doc_md, dag.dag_id
        assert dag.tags and not dag.catchup
        assert dag.max_active_runs == 1 if dag.dag_id in ALWAYS else dag.schedule is None, dag.dag_id


def test_every_dag_can_be_stored(dag_bag: Any) -> None:
    """Serialised as the scheduler does and read back, a DAG has its tasks."""
    for dag in dag_bag.dags.values():
        assert set(DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)).task_ids) == set(dag.task_ids)


def test_tasks_are_retried_after_a_kill_and_soon(dag_bag: Any) -> None:
    """A killed task is retried, within seconds: clients stand still."""
    for task in dag_bag.dags["failback"].tasks:
        assert task.retries >= 1 and task.retry_delay.total_seconds() <= 10 and task.owner == "switchback", task.task_id


def test_source_target_and_reason_alone_are_enough() -> None:
    """Every other param has a default."""
    assert {k: v for k, v in checked(GIVEN).items() if v not in (None, False)} == GIVEN


@pytest.mark.parametrize("missing", GIVEN)
def test_each_of_the_three_is_needed(missing: str) -> None:
    """Without a source, a target or a reason Airflow does not start a run."""
    with pytest.raises(ParamValidationError):
        checked({k: v for k, v in GIVEN.items() if k != missing})


@pytest.mark.parametrize(
    "bad",
    [
        {"reason": ""},
        {"source": 7},
        {"max_fence_seconds": 0},
        {"max_fence_seconds": "soon"},
        {"topics": 5},
        {"start_reverse_replication": "yes"},
        {"abort_open_transactions": 1},
        {"exclude_groups": ["g"]},
        {"exclude_groups": {"g": ""}},
        {"exclude_groups": {"g": None}},
    ],
)
def test_params_are_typed(bad: dict[str, Any]) -> None:
    """What has the wrong type or is out of range is refused by the form."""
    with pytest.raises(ParamValidationError):
        checked(GIVEN | bad)


def test_excluded_groups_are_a_map_with_reasons() -> None:
    """The form takes names of any shape, each with a reason."""
    assert checked(GIVEN | {"exclude_groups": {"a.b c": "gone"}})["exclude_groups"] == {"a.b c": "gone"}


def test_every_deadline_of_the_form_is_one_of_the_topology() -> None:
    """A deadline that can be asked for is one that is obeyed."""
    deadlines = {
        name
        for name in [*procedure_form("planned_failover"), *procedure_form("unplanned_failover")]
        if name.endswith("_seconds")
    }
    assert deadlines <= set(Deadlines.model_fields)


def test_the_form_allows_no_reason_that_is_refused_later() -> None:
    """A reason that fits the form is short enough for the check that follows."""
    assert procedure_form("planned_failover")["reason"].schema["maxLength"] <= LONGEST_REASON
    assert procedure_form("unplanned_failover")["override_source_lost"].schema["maxLength"] <= LONGEST_REASON
    for dag_id in ("planned_failover", "unplanned_failover"):
        assert procedure_form(dag_id)["acknowledge_cool_down"].schema["maxLength"] <= LONGEST_REASON


def test_who_takes_the_lease_takes_an_acknowledgement() -> None:
    """Every procedure that opens one has it in its form; the abort has not, and refuses it; after a drill and after a
    procedure that only reads none runs.
    """
    opening = {
        dag_id
        for dag_id, row in PROCEDURES.items()
        if Step.OPEN_PROCEDURE in row.steps and dag_id != "failover_drill" and not row.only_reads
    }
    assert {dag_id for dag_id in PROCEDURES if "acknowledge_cool_down" in procedure_form(dag_id)} == opening
    assert "acknowledge_cool_down" in foreign_params("abort_procedure")


@pytest.mark.parametrize("dag_id", PROCEDURES)
def test_the_check_knows_every_field_of_a_form(dag_id: str) -> None:
    """What a form offers is no unknown param to the check that follows, and what other forms have is refused by it."""
    fields = procedure_form(dag_id)
    with pytest.raises(BadInput) as refused:
        check_params(NO_TOPOLOGY, dict.fromkeys(fields, object()), foreign_params(dag_id))
    assert not [problem for problem in refused.value.problems if "no such param" in problem]
    assert foreign_params(dag_id) == {name for other in PROCEDURES for name in procedure_form(other)} - set(fields)


ALIAS_FORMS = [*PROCEDURES, "readiness_check"]


def form_of(dag_id: str) -> dict[str, Any]:
    """The params of a DAG's form."""
    return flow_form() if dag_id == "readiness_check" else procedure_form(dag_id)


@pytest.mark.parametrize("dag_id", ALIAS_FORMS)
def test_clusters_are_proposed_by_their_aliases(dag_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the topology, sorted; another value is still taken by the form, and refused by the run."""
    Bench(tmp_path)
    monkeypatch.setenv("KAFKA_DR_TOPOLOGY", str(tmp_path / "topology.yaml"))
    form = form_of(dag_id)
    assert [form[name].schema["examples"] for name in ("source", "target")] == [["primary", "standby"]] * 2
    params = ParamsDict(form)
    needed = {name: "text" for name in ("reason", "topics") if name in form}
    params.update({"source": "elsewhere", "target": "standby"} | needed)
    assert params.validate()["source"] == "elsewhere"


@pytest.mark.parametrize("text", [None, "clusters: 7", "clusters: [", "\0"])
@pytest.mark.parametrize("dag_id", ALIAS_FORMS)
def test_a_topology_that_cannot_be_read_leaves_plain_fields(
    dag_id: str, text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file, a wrong one, one that is no YAML: the DAG has its form, with the same values allowed."""
    monkeypatch.setenv("KAFKA_DR_TOPOLOGY", str(tmp_path / "topology.yaml"))
    if text is not None:
        (tmp_path / "topology.yaml").write_text(text)
    form = form_of(dag_id)
    assert not any("examples" in form[name].schema for name in ("source", "target"))
    Bench(tmp_path)
    schemas = [{**param.schema, "examples": None} for param in form.values()]
    assert schemas == [{**param.schema, "examples": None} for param in form_of(dag_id).values()]


@pytest.mark.parametrize("dag_id", PROCEDURES)
def test_common_params_come_first_and_deadlines_last(dag_id: str) -> None:
    """Each part of the form is one block, under its heading; no field is lost."""
    form = procedure_form(dag_id)
    assert set(form) == PROCEDURES[dag_id].params
    parts = [param.schema.get("section") for param in form.values()]
    assert list(form)[:3] == ["source", "target", "reason"] and parts[0] is None
    blocks = [part for part, _ in itertools.groupby(parts)]
    assert blocks == [part for part in (None, "Choices of this DAG", "Deadlines") if part in blocks]
    assert {name for name in form if name.endswith("_seconds")} == {
        name for name, param in form.items() if param.schema.get("section") == "Deadlines"
    }
