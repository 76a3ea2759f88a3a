"""Whole facts for tests that need a few of their fields."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from typing import Any

import pandas as pd
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.errors import Contradiction
from kafka_dr.procedure.binding import bind_run
from kafka_dr.procedure.entries import ApprovedPlan, LeaseTaken, MovePlanned, ProcedureOpened, Receipt, StrandedTopic
from kafka_dr.procedure.entries.fact import _KEYS, read_entry, shapes_of
from kafka_dr.procedure.run import Run
from kafka_dr.steps.gate import ProcedureGate
from kafka_dr.steps.planned.approve_failover import ApproveFailover
from kafka_dr.vocabulary import Entry, Step

NO_FILE = Receipt("none.parquet", 0, "")
#: The gate of a planned failover, and a plan that it asks about.
GATE = Step.APPROVE_FAILOVER
PLAN = {
    "source": "primary",
    "target": "standby",
    "reason": "r",
    "lag": 0,
    "drain_seconds": None,
    "unproven": [],
    "deadlines": {"max_fence_seconds": 600.0},
}


def figures_of(run: Run, step: str) -> dict[str, Any] | None:
    """Return the payload of a step's last outcome; None if the step was not done."""
    entry = run.journal.last(run.id, step, Entry.OUTCOME)
    if entry is None or not entry.payload.get("plan_file"):
        return None if entry is None else entry.payload
    return {**entry.payload, "plan": run.artifacts.load_json(Receipt(**entry.payload["plan_file"]))}


def asked_by(gate: ProcedureGate, run: Run) -> tuple[str, str, str] | None:
    """Return subject, body and digest of a gate's question; None if the gate asks nothing."""
    digest = gate.digest(run)
    if digest is None:
        return None
    asked = gate.question(run)
    return f"{asked.subject} {digest}", asked.body, digest


def gate() -> ApproveFailover:
    """The gate of the failover, made anew as Airflow does for each try."""
    return ApproveFailover(task_id=GATE.value)


def open_run(procedure: Run, bound: bool = True) -> None:
    """Take the lease and write the journal entries with which a run is opened, as earlier versions if not `bound`."""
    epoch, request = procedure.journal.take_lease(procedure.pair, procedure.id), procedure.request
    opened = ProcedureOpened(
        dag_id=procedure.identity.dag_id,
        run_id=procedure.identity.run_id,
        source=request.source,
        target=request.target,
        reason=request.reason,
        triggered_at=procedure.now(),
        request=request.model_dump(mode="json"),
        binding=bind_run(procedure) if bound else None,
        objectives=procedure.topology.objectives_of(request.source, request.target) if bound else None,
    )
    for fact in (opened, LeaseTaken(epoch=epoch, pair=procedure.pair)):
        procedure.journal.append(procedure.id, Step.OPEN_PROCEDURE, fact.kind, epoch, fact.payload())


def tell(procedure: Run, step: str, kind: Entry, figures: Mapping[str, Any]) -> None:
    """Write one journal entry of a step; figures that are not given are empty."""
    empty = procedure.artifacts.save("empty", pd.DataFrame())
    procedure.authority.write(step, kind, whole(step, kind, figures, empty))


def whole(step: str, kind: Entry, given: Mapping[str, Any], empty_file: Receipt) -> dict[str, Any]:
    """Return a payload as a step writes it: the given fields, and an empty value for each other field.

    A plan that is not given, or is given without a digest, gets empty fields and its digest.

    Args:
        empty_file: receipt for each file that is not given.

    Raises:
        AssertionError: no fact of the step has fields of all these names.
    """
    known = [one for one in shapes_of(step, kind) if {_KEYS.get(f.name, f.name) for f in fields(one)} >= set(given)]
    assert known, f"{step} writes no {kind} with {sorted(given)}"
    fewest = sorted(known, key=lambda shape: len(shape.required - set(given)))
    if issubclass(fewest[0], MovePlanned) and "plan_file" not in given and not {"plan", "plan_digest"} <= set(given):
        plan = _fields(ApprovedPlan, empty_file) | given.get("plan", {})
        given = {"plan_digest": digest_of(plan), **given, "plan": plan}
    made = [_fields(shape, empty_file) | json.loads(json.dumps(dict(given), default=vars)) for shape in fewest]
    # Two facts of one step may differ in a value only: whether a gate asked.
    return next((one for one in made if _is_read(step, kind, one)), made[0])


def _is_read(step: str, kind: Entry, payload: Mapping[str, Any]) -> bool:
    with suppress(Contradiction):
        return bool(read_entry(step, kind, payload))
    return False


def entry(step: str, kind: str, at: datetime | None = None, procedure_id: str = "p-1", /, **given: Any) -> Any:
    """Return one journal entry, its payload as of `whole`."""
    payload = whole(step, Entry(kind), given, NO_FILE)
    return types.SimpleNamespace(procedure_id=procedure_id, step=str(step), kind=str(kind), at=at, payload=payload)


def stranded_topic(topic: str, **counts: Any) -> dict[str, Any]:
    """Return a topic's row of find_stranded_records; counts that are not given are 0."""
    return _fields(StrandedTopic, NO_FILE) | {"topic": topic, **counts}


def _fields(shape: type[Any], empty_file: Receipt) -> dict[str, Any]:
    """Return by key an empty value for each required field of a dataclass."""
    types_of = typing.get_type_hints(shape, include_extras=True)
    return {
        _KEYS.get(field.name, field.name): _empty(types_of[field.name], empty_file)
        for field in fields(shape)
        if field.default is MISSING and field.default_factory is MISSING
    }


def _empty(annotation: Any, empty_file: Receipt) -> Any:
    """Return an empty value of a type: None if the type allows it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _empty(arguments[0], empty_file)
    if origin in (typing.Union, types.UnionType):
        return None if types.NoneType in arguments else _empty(arguments[0], empty_file)
    if origin is typing.Literal:
        return arguments[0]
    if origin is not None and issubclass(origin, Mapping):
        return {}
    if origin is not None and issubclass(origin, Sequence):
        return []
    if annotation is Receipt:
        return vars(empty_file)
    return _fields(annotation, empty_file) if is_dataclass(annotation) else annotation()
