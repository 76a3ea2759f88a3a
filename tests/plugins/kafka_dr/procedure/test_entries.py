"""Entries of the journal as facts: what is written, read again, and told apart."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from kafka_dr.errors import Contradiction
from kafka_dr.procedure import entries as module
from kafka_dr.procedure.entries import (
    AclEntriesToAdd,
    ConsumersDrained,
    DataLossAssessed,
    EndsNoted,
    Fact,
    FailoverForecast,
    FenceToArm,
    GatePassed,
    LeasePassed,
    MirrorMakerStopped,
    OffsetsTranslated,
    PlannedTopic,
    ProcedureOpened,
    SourceFenced,
    SourceFencedByHook,
    StepRefused,
    StrandedRecordsFound,
    TryBegun,
    facts_in,
    facts_of,
    newest_fact,
    read_entry,
)
from kafka_dr.procedures import GATES, PROCEDURES
from kafka_dr.vocabulary import Entry, Step

ROOT = Path(__file__).parents[4]
FACTS = [fact for fact in vars(module).values() if inspect.isclass(fact) and issubclass(fact, Fact)]
#: Facts that entries say; the others are bases of these.
WRITTEN = [fact for fact in FACTS if any(fact in module.shapes_of(step, kind) for step in Step for kind in Entry)]
RECEIPT = {"file": "ends-0123456789ab.parquet", "rows": 3, "sha256": "0123"}
APPROVAL = {"gate": "approve_data_loss", "by": "bea", "at": "2026-11-25T10:00:00+00:00", "digest": "d1"}


def sample(kind: Any, full: bool) -> Any:
    """A value of a type; `full` tells whether what may be None or empty is."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return sample(arguments[0], full)
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        return sample(arguments[0], full) if full else None
    if origin is Sequence:
        return [sample(arguments[0], full)] if full else []
    if origin is Mapping:
        return {"key": sample(arguments[1], full)} if full else {}
    if is_dataclass(kind):
        return kind(**samples(kind, full))
    if hasattr(kind, "_fields"):
        return kind(**{name: sample(hint, full) for name, hint in get_type_hints(kind).items()})
    return {int: 7, float: 1.5, str: "words", bool: full, Any: {"any": [1, None]}}[kind]


def samples(kind: type, full: bool) -> dict[str, Any]:
    """A value for every field."""
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: sample(hints[one.name], full) for one in fields(kind)}


def canonical(payload: Any) -> str:
    """As the journal keeps it."""
    return json.dumps(payload, sort_keys=True, allow_nan=False)


@pytest.mark.parametrize("full", [True, False], ids=["full", "bare"])
@pytest.mark.parametrize("fact", WRITTEN, ids=lambda fact: fact.__name__)
def test_a_fact_is_read_again_as_it_was_written(fact: type[Fact], full: bool) -> None:
    """By its step, its kind and its keys alone."""
    written = fact(**samples(fact, full))
    for step in fact.steps or Step:
        again = read_entry(step, fact.kind, json.loads(json.dumps(written.payload())))
        assert type(again) is fact
        assert canonical(again.payload()) == canonical(written.payload())
        assert again.payload().keys() >= fact.required


def test_every_class_is_a_shape_or_the_base_of_shapes() -> None:
    """No fact is left without steps by accident."""
    assert len(WRITTEN) > 60
    assert all(any(issubclass(shape, fact) for shape in WRITTEN) for fact in FACTS)


# -- what today's code writes --------------------------------------------------------------------------------------

PLUGINS = ROOT / "plugins"
WRITES = ("steps", "actions", "watcher", "commands")


def modules() -> Iterator[tuple[str, ast.Module, dict[str, Any]]]:
    """Modules that write entries: name, tree, and the names that they know."""
    for path in sorted(file for folder in WRITES for file in (PLUGINS / "kafka_dr" / folder).rglob("*.py")):
        names = vars(importlib.import_module(".".join(path.relative_to(PLUGINS).with_suffix("").parts)))
        yield path.name, ast.parse(path.read_text(encoding="utf-8")), names


def keys_of(payload: ast.expr | None, names: dict[str, Any]) -> set[str]:
    """Keys that are spelt out in a payload; empty if it is no dict."""
    keys = payload.keys if isinstance(payload, ast.Dict) else ()
    return {eval(ast.unparse(key), names) for key in keys if key is not None}


def written_payloads() -> Iterator[tuple[str, str | None, str, set[str]]]:
    """Place, step (None where a variable names it), kind, and keys of every payload that is spelt out."""
    for place, tree, names in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("write", "append"):
                spelt = [ast.unparse(one) for one in node.args]
                kinds = [eval(text, names) for text in spelt if text.startswith("Entry.")]
                steps = [eval(text, names) for text in spelt if text.startswith(("Step.", "STEP"))]
                keys = set[str]().union(*(keys_of(one, names) for one in node.args))
                if kinds and keys:
                    yield f"{place}:{node.lineno}", next(iter(steps), None), kinds[0], keys
            if isinstance(node, ast.FunctionDef) and node.name == "act":
                for done in ast.walk(node):
                    if isinstance(done, ast.Return) and (keys := keys_of(done.value, names)):
                        yield f"{place}:{done.lineno}", None, Entry.OUTCOME, keys


def test_every_payload_that_is_spelt_out_has_a_class() -> None:
    """A new key, kind or step needs a field."""
    unknown = [
        (place, sorted(keys))
        for place, step, kind, keys in written_payloads()
        if not any(
            fact.kind == kind and (step is None or not fact.steps or step in fact.steps) and keys <= known_keys(fact)
            for fact in WRITTEN
        )
    ]
    assert unknown == []


def known_keys(fact: type[Fact]) -> set[str]:
    """Keys of a fact's payloads."""
    return {"try" if one.name == "attempt" else one.name for one in fields(fact)}


@pytest.mark.parametrize("step", list(Step), ids=str)
def test_every_step_has_the_entries_that_steps_write(step: Step) -> None:
    """Its outcome, and why it failed; a gate's approval, too."""
    in_a_procedure = any(step in row.steps for row in PROCEDURES.values())
    assert bool(module.shapes_of(step, Entry.OUTCOME)) or not in_a_procedure
    assert bool(module.shapes_of(step, Entry.APPROVAL)) == (step in GATES)
    kinds = {fact.kind for fact in WRITTEN if step in fact.steps or not fact.steps}
    assert kinds >= {Entry.INTENT, Entry.REFUSAL, Entry.FAILURE}


AT = "2026-11-25T10:00:00+00:00"
ANSWER = {"fenced": True, "by": "the network", "detail": ""}
NO_ANSWER = {"fenced": False, "by": "", "detail": "", "error": "no answer"}
ARMED = {"approval": APPROVAL, "fenced": "armed", "armed_at": AT, "topics": 3, "watcher_seen_at": AT}
CIRCLE = {"stopped": {"c": "STOPPED"}, "flow": "e->w", "seen_at": "x"}
OPEN = {"topic": "t", "partition": 0, "start_offset": 7, "since_ms": 1}
OPEN |= dict.fromkeys(("producer_id", "transactional_id", "state", "timeout_ms"))
GIVEN_BACK = {"continued_by": None, "given_back_by": "p2", "outcome": "returned"}
EXACT = {
    "an armed source": (
        Step.FENCE_SOURCE,
        Entry.INTENT,
        {"arms_fence": {"source": "e", "target": "w", "topics": ["t"]}},
    ),
    "a fence by hook": (
        Step.FENCE_SOURCE,
        Entry.OUTCOME,
        {"approval": APPROVAL, "fenced": "by hook", "answer": ANSWER, "fenced_at": AT},
    ),
    "a hook that is away": (Step.FENCE_SOURCE, Entry.OUTCOME, ARMED | {"answer": NO_ANSWER}),
    "a gate by hand": (Step.REVIEW_TRANSLATION, Entry.OUTCOME, {"asked": False, "by_hand": "ann"}),
    "a commit by hand": (Step.COMMIT_GROUPS, Entry.OUTCOME, {"positions": 4, "local_ends": RECEIPT, "by_hand": "ann"}),
    "an opening by hand": (Step.OPEN_TARGET, Entry.OUTCOME, {"opened_at": AT, "by_hand": "ann"}),
    "a return by hand": (Step.RETURN_TO_SOURCE, Entry.INTENT, {"reopens_source": True, "by_hand": "ann"}),
    "entries that are removed": (Step.RETURN_TO_SOURCE, Entry.INTENT, {"removes_acl_entries": 4}),
    "nothing touched": (Step.RETURN_TO_SOURCE, Entry.OUTCOME, {"touched": False}),
    "a lease given back": (Step.OPEN_PROCEDURE, Entry.NOTE, GIVEN_BACK),
    "the watcher's intent": (Step.WATCH_OLD_SOURCE, Entry.INTENT, {"stops_processes": "e->w", "procedure_id": "p"}),
    "a circle": (Step.WATCH_OLD_SOURCE, Entry.NOTE, {"both_flows_run": CIRCLE, "procedure_id": "p"}),
    "a disarmed fence": (Step.WATCH_OLD_SOURCE, Entry.NOTE, {"disarms_fence": "p", "source": "e", "reason": "fenced"}),
    "open transactions": (Step.FENCE_PRODUCERS, Entry.NOTE, {"open_transactions": [OPEN]}),
    "no reverse flow": (Step.SEED_REVERSE_REPLICATION, Entry.OUTCOME, {"seeded": 0, "why_not": "there is none"}),
    "no flow to start": (Step.START_REVERSE_REPLICATION, Entry.OUTCOME, {"started": False}),
    "a later replay": (Step.RECONCILE_STRANDED_RECORDS, Entry.NOTE, {"replaying": "p"}),
}


@pytest.mark.parametrize(("step", "kind", "payload"), EXACT.values(), ids=EXACT.keys())
def test_a_payload_as_it_is_written_today_comes_back_unchanged(
    step: Step, kind: Entry, payload: dict[str, Any]
) -> None:
    """Key by key; what is absent stays absent, and null stays null."""
    assert canonical(read_entry(step, kind, payload).payload()) == canonical(payload)


JOURNALS = sorted((ROOT / "tests/fixtures/journals").glob("*/journal.jsonl"))


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.parent.name)
def test_every_entry_of_a_real_journal_comes_back_unchanged(journal: Path) -> None:
    """Byte by byte, as the journal's hashes cover them, but for a key that is written no more."""
    rows = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    entries = [row for row in rows if row["table"] == "entries"]
    assert entries
    for row in entries:
        payload = json.loads(row["payload"])
        payload.pop("earlier_positions", None)
        assert canonical(read_entry(row["step"], row["kind"], payload).payload()) == canonical(payload), row["sequence"]


# -- older and newer entries ---------------------------------------------------------------------------------------


def without(fact: type[Fact], *names: str) -> Any:
    """The fact as read from a payload that lacks some keys."""
    payload = fact(**samples(fact, full=True)).payload()
    return read_entry(fact.steps[0], fact.kind, {key: value for key, value in payload.items() if key not in names})


EARLIER = {"earlier_translation": {}, "translated_ahead": None}


@pytest.mark.parametrize(
    ("fact", "defaults"),
    [
        (ProcedureOpened, {"continues": None, "cool_down": None}),
        (AclEntriesToAdd, {"cluster": None, "procedure_id": None}),
        (ConsumersDrained, {"commits_end": {}}),
        (EndsNoted, {"all_noted": False}),
        (MirrorMakerStopped, {"replicated": None}),
        (OffsetsTranslated, {"bound": None, "may_have_moved": 0}),
        (StrandedRecordsFound, {"gone": None, "records_to_copy": None}),
        (DataLossAssessed, EARLIER | {"copied_anew": (), "flowed_back": True}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_older_entries_lack_has_a_default(fact: type[Fact], defaults: dict[str, Any]) -> None:
    """The one that their readers took."""
    read = without(fact, *defaults)
    assert type(read) is fact
    assert {name: getattr(read, name) for name in defaults} == defaults


def test_unknown_keys_are_ignored() -> None:
    """A newer version may have written them."""
    assert read_entry(Step.FORECAST, Entry.INTENT, {"try": 2, "moon": "full"}) == TryBegun(attempt=2)


@pytest.mark.parametrize(
    ("step", "kind", "payload", "seen"),
    [
        (Step.FORECAST, Entry.NOTE, {"b": 1, "a": 2}, "keys: a, b"),
        (Step.COMMIT_GROUPS, Entry.OUTCOME, ["not", "a", "mapping"], "keys: none"),
        (Step.FORECAST, Entry.INTENT, {"try": "many"}, "try: Input should be a valid integer"),
        (Step.FENCE_SOURCE, Entry.INTENT, {"arms_fence": {"source": "e"}}, "arms_fence.target: "),
    ],
)
def test_an_entry_that_says_no_known_fact_is_refused(step: Step, kind: Entry, payload: Any, seen: str) -> None:
    """By its keys, or by the first value that is wrong."""
    with pytest.raises(Contradiction) as refused:
        read_entry(step, kind, payload)
    assert refused.value.seen.startswith(seen)
    assert refused.value.next_step


# -- reading -------------------------------------------------------------------------------------------------------


def entry(sequence: int, step: str, fact: Fact) -> Any:
    """A journal's entry."""
    return SimpleNamespace(sequence=sequence, step=str(step), kind=str(fact.kind), payload=fact.payload())


JOURNAL = [
    entry(1, Step.OPEN_PROCEDURE, LeasePassed(continued_by="p2")),
    entry(2, Step.FENCE_SOURCE, FenceToArm(**samples(FenceToArm, full=True))),
    entry(3, Step.FENCE_SOURCE, SourceFencedByHook(**samples(SourceFencedByHook, full=True))),
    entry(4, "step_of_a_newer_version", StepRefused(error="E", reason="r", seen="", next_step="")),
    SimpleNamespace(sequence=5, step="open_procedure", kind="note", payload={"of a newer version": 1}),
    entry(6, Step.OPEN_PROCEDURE, LeasePassed(continued_by=None, given_back_by="p2", outcome="returned")),
    entry(7, Step.REVIEW_TRANSLATION, GatePassed(asked=False)),
]


def test_facts_of_a_class_are_found_among_all_entries() -> None:
    """In the journal's order; entries of other classes and unknown ones are passed over."""
    assert [fact.continued_by for fact in facts_in(JOURNAL, LeasePassed)] == ["p2", None]
    assert [one.sequence for one, _ in facts_of(JOURNAL, LeasePassed)] == [1, 6]
    assert [one.sequence for one, _ in facts_of(JOURNAL, Fact)] == [1, 2, 3, 4, 6, 7]


def test_an_entry_that_cannot_be_read_is_named() -> None:
    """By kind, step, procedure and time: a person finds it in the journal's database."""
    broken = SimpleNamespace(procedure_id="p1", step="forecast", kind="intent", at="12:00", payload={"try": "many"})
    with pytest.raises(Contradiction, match="An entry of the journal cannot be read") as refused:
        facts_in([broken], TryBegun)
    assert refused.value.seen.startswith("intent of forecast, procedure p1, at 12:00: try: Input should be")


def test_the_newest_fact_of_a_class_is_the_last_one() -> None:
    """Of a base class, whatever the shape; None without one."""
    assert newest_fact(JOURNAL, LeasePassed).given_back_by == "p2"
    assert type(newest_fact(JOURNAL, SourceFenced)) is SourceFencedByHook
    assert newest_fact(iter(JOURNAL), TryBegun) is None


def test_a_plan_is_kept_word_for_word_and_read_by_name() -> None:
    """Its digest covers keys that steps do not read."""
    plan = {
        "source": "east",
        "target": "west",
        "topics": [["orders", "east.orders", 2, "id-1"]],
        "groups": [{"group": "billing", "partitions": 2, "lag": 0}],
        "opening": [],
        "deadlines": {"max_fence_seconds": 600.0},
        "reason": "drill",
    }
    forecast = FailoverForecast(plan=plan, plan_digest="d", active_groups=[], end_sum=1)
    assert forecast.payload()["plan"] == plan
    assert forecast.planned.topics == [PlannedTopic("orders", "east.orders", 2, "id-1")]
    assert [group.group for group in forecast.planned.groups] == ["billing"]
    assert (forecast.planned.excluded, forecast.planned.copies) == ((), {})
    assert replace(forecast, end_sum=2).plan == plan
