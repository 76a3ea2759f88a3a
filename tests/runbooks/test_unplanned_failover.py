"""The page of unplanned_failover has a heading a step, and every outcome and word of the gate."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

from kafka_dr.config.deadlines import Deadlines
from kafka_dr.config.storage import Recorder
from kafka_dr.config.topology import Cluster, Topology
from kafka_dr.dag_policy import procedure_form
from kafka_dr.domain.fencing.armed_fence import ARMED, BY_ACL, BY_HOOK
from kafka_dr.domain.loss.loss_page import loss_markdown
from kafka_dr.domain.loss.source_lost import FROM_APPLICATION, FROM_CONNECT, FROM_HERE, SourceState
from kafka_dr.procedure import entries
from kafka_dr.procedures import steps_of
from kafka_dr.vocabulary import Outcome, Step, TranslationClass

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "runbooks" / "unplanned_failover.md").read_text(encoding="utf-8")
QUESTION = (ROOT / "runbooks" / "data_loss_question.md").read_text(encoding="utf-8")
SECTIONS = dict(part.split("\n", 1) for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:])


def steps_of_the_dag() -> list[str]:
    """Task ids of the DAG's file, as it names them from top to bottom."""
    calls = [
        node
        for node in ast.walk(ast.parse((ROOT / "dags" / "unplanned_failover.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]
    named = [
        (call.lineno, word.value.value)
        for call in calls
        for word in call.keywords
        if word.arg == "task_id" and isinstance(word.value, ast.Constant)
    ]
    return [name for _, name in sorted(named)]


def first_cells(text: str) -> list[str]:
    """The first column of every table, without heads and lines."""
    return [cell.strip() for cell in re.findall(r"^\|([^|]*)\|", text, flags=re.MULTILINE) if cell.strip(" -")]


def marked(text: str) -> set[str]:
    """Single words in marks of code."""
    return set(re.findall(r"`(\w+)`", text))


def table_after(text: str, head: str) -> str:
    """The rows below a table's head."""
    return text.split(f"| {head} |", 1)[1].split("\n\n", maxsplit=1)[0]


def test_one_heading_a_step_in_order() -> None:
    """The page's headings are the DAG's tasks in their order, and both are the vocabulary's steps of this procedure."""
    assert list(SECTIONS) == steps_of_the_dag()
    assert list(SECTIONS) == [
        s.value for s in steps_of("unplanned_failover") if s not in (Step.ABORT_PROCEDURE, Step.WATCH_OLD_SOURCE)
    ]


def test_every_outcome_is_explained() -> None:
    """The table of outcomes has the vocabulary's words."""
    assert marked("\n".join(first_cells(table_after(PAGE, "outcome")))) == {o.value for o in Outcome}


def test_states_views_and_fences_are_the_codes() -> None:
    """What the source is found to be, who looks, and how it is fenced: each has a row, and none else has."""
    confirm, fence = SECTIONS[Step.CONFIRM_SOURCE_LOST], SECTIONS[Step.FENCE_SOURCE]
    assert marked(table_after(confirm, "state")) - {"slow_seconds"} == {s.value for s in SourceState}
    assert first_cells(table_after(confirm, "view").partition("\n")[2]) == [FROM_HERE, FROM_CONNECT, FROM_APPLICATION]
    found = re.findall(r"^\| `([\w ]+)` \|", table_after(fence, "`fenced`"), flags=re.MULTILINE)
    assert found == [BY_ACL, BY_HOOK, ARMED]


def test_the_classes_are_those_that_occur_without_a_source() -> None:
    """Each class is explained or said not to occur; the translation's own sources for a lost source know no other."""
    told = set(re.findall(r"^\| `([A-Z]+)` \|", SECTIONS[Step.TRANSLATE_OFFSETS], flags=re.MULTILINE))
    absent = re.findall(
        r"^- `([A-Z]+)` and `([A-Z]+)` do not occur", SECTIONS[Step.TRANSLATE_OFFSETS], flags=re.MULTILINE
    )
    translation = ROOT / "spark" / "kafka_dr_spark" / "translation"
    made = "".join((translation / f"{name}.py").read_text(encoding="utf-8") for name in ("from_samples", "case"))
    made += (translation / "nearest_pair.py").read_text(encoding="utf-8").split("def after_last_copy")[0]
    assert told == {c.value for c in TranslationClass if f'"{c.value}"' in made}
    assert set(absent[0]) == {"END", "CONTENT"} and not told & set(absent[0])


LISTED = {"records": 7, "bytes": 90, "first_at": 0, "last_at": 5000, "aborted": 1, "undecided": 2}


def question(fence: str = ARMED, fenced_at: str | None = "10:00", **listed: int) -> str:
    """A full question of approve_data_loss; ``listed`` is what a source that was read adds to the inventory."""
    row = {"topic": "orders", "partition": 0, "from_offset": 5, "evidence": ""}
    row |= dict.fromkeys(("certain_to", "possible_to", "written_since", "records"))
    group = {"group": "billing", "partitions": 1, "policy": "earliest", "active": True, "position_at": None, "ahead": 1}
    inventory = {
        "certain": 7,
        "possible": None,
        **dict.fromkeys(("losing", "partitions", "unknown", "groups_ahead"), 1),
    }
    inventory |= {"records_per_second": 3, **listed}
    confirmed = {"state": "slow", "window": "3 rounds in 15 s", "override": "why", "fence": fence}
    plan = {"source": "east", "target": "west", "reason": "fire", "confirmed": confirmed}
    taken = {"procedure_id": "planned", "fenced_at": fenced_at, "partitions": 2, "drained": 1}
    taken |= {"positions": 5, "missing": 6}
    cooling = {"procedure_id": "before", "outcome": "completed", "acknowledged": "why"}
    cooling |= {"ended_at": "10:00", "ends_at": "10:15"}
    return loss_markdown(
        {
            **plan,
            "continues": taken,
            "cool_down": cooling,
            "inventory": inventory,
            "loss": [row],
            "groups": [group],
            "unproven": ["there is no flight recorder: nobody"],
            "gone": ["old"],
            "rereads": {"bound": 12, "positions": 4, "may_have_moved": 2, "unknown": 1},
            "seen": {"recorder": True, "recorded_at": 0, "heartbeat_at": 4000, "looked_for_at": 9000},
        },
        "d",
    )


def plain(text: str) -> str:
    """Words alone."""
    return " ".join(re.sub(r"[*`|]", " ", text).split())


def test_every_word_of_the_question_is_explained() -> None:
    """Each sentence, column and remark stands on the approver's page; each row of its table speaks of one."""
    asked, told = (
        plain(
            question()
            + question(fenced_at=None)
            + question(BY_HOOK)
            + question(**LISTED, unread=2)
            + question(records=0)
        ),
        QUESTION,
    )
    quoted = [
        part.strip(" .,:")
        for text in re.findall(r"`([^`]*\.\.\.[^`]*)`", told)
        for part in text.split("...")
        if " " in part.strip()
    ]
    columns = re.findall(r"\*([a-z][^*]+)\*", told)
    assert len(quoted) >= 6 and len(columns) >= 7
    assert [words for words in [*quoted, *columns] if words not in asked] == []
    heads = [
        cell.strip()
        for line in question().splitlines()
        if line.startswith(("| partition", "| group"))
        for cell in line.strip("| ").split("|")
    ]
    assert [
        head
        for head in heads
        if head not in plain(PAGE + QUESTION) and head not in ("partition on the source", "group", "partitions")
    ] == []
    sentences = [
        part
        for part in re.split(
            r"[0-9:;.*|]|\b(?:east|west|planned)\b",
            question(fenced_at=None) + question(fenced_at=None, **LISTED) + question(fenced_at=None, records=0),
        )
        if re.search(
            r"(los[et]|sampled|Estimate|consumed records|overrides|again|committed later|matching offset)", part
        )
    ]
    assert len(sentences) >= 8
    assert [part.strip() for part in sentences if plain(part) not in plain(PAGE + QUESTION)] == []


def test_words_in_backticks_are_the_codes() -> None:
    """What the page names is a step, a param, a deadline, a DAG, or a figure that some module or schema writes."""
    modules = [*(ROOT / "plugins").rglob("*.py"), *(ROOT / "spark").rglob("*.py")]
    written = {
        node.value
        for path in modules
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    for path in (ROOT / "spark" / "kafka_dr_spark" / "contract" / "schemas").glob("*.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        written |= {field["name"] for field in [*schema.get("columns", []), *schema.get("fields", [])]}
    settings = {name for model in (Deadlines, Topology, Recorder, Cluster) for name in model.model_fields}
    dags = {path.stem for path in (ROOT / "dags").glob("*.py")}
    facts = {field.name for fact in vars(entries).values() if is_dataclass(fact) for field in fields(fact)}
    known = {*written, *settings, *facts, *Step, *procedure_form("unplanned_failover"), *dags}
    words = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", PAGE + QUESTION))
    assert len(words) > 40
    assert words - known == set()


def test_files_that_are_to_be_kept_are_written() -> None:
    """Each file that the page names by its beginning is kept by a step under that name."""
    product = ROOT / "plugins" / "kafka_dr"
    code = "".join(
        path.read_text(encoding="utf-8") for part in ("steps", "actions") for path in (product / part).rglob("*.py")
    )
    names = set(re.findall(r"`(\w+)-\*\.parquet`", PAGE))
    assert {"boundary", "loss", "source_ends", "source_positions", "accepted", "positions", "ledger"} == names
    assert [name for name in names if not re.search(rf'save\(\s*"{name}"', code)] == []


def test_the_page_of_the_question_is_found() -> None:
    """Whoever is asked, or looks for a page, is led there."""
    assert "(data_loss_question.md)" in SECTIONS[Step.APPROVE_DATA_LOSS]
    assert "(data_loss_question.md)" in (ROOT / "runbooks" / "README.md").read_text(encoding="utf-8")


def test_the_page_is_found() -> None:
    """Whoever reads the README, the page that helps to choose, or the planned failover's, is led here."""
    for page in ("README.md", "runbooks/README.md", "runbooks/planned_failover.md"):
        assert "unplanned_failover.md)" in (ROOT / page).read_text(encoding="utf-8"), page
    chosen = (ROOT / "runbooks" / "README.md").read_text(encoding="utf-8").split("\n## ")[0]
    for question_asked in (
        "Where are the clients now?",
        "Does the source answer?",
        "Can clients be stopped there?",
        "May anything be lost?",
    ):
        assert re.search(rf"^\| \d\. {re.escape(question_asked)} \|", chosen, flags=re.MULTILINE), question_asked
