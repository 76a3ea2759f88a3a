"""The form of a procedure's page: head, first 60 seconds, how it ends, whom to tell, and the same four parts a step."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
from kafka_dr.procedures import GATES
from kafka_dr.vocabulary import Outcome

RUNBOOKS = Path(__file__).parents[2] / "runbooks"
MOVES = ("planned_failover", "unplanned_failover", "failback")
PAGES = (*MOVES, "lost_cluster", "restore_group_offsets", "change_replication", "abort_procedure")
WATCHERS = ("watch_old_source", "record_positions", "readiness_check")
PARTS = ["Does.", "Proves.", "Waits at most.", "If it fails."]
TABLE = re.compile(r"^\| you see[^|]*\| means \| do \|\n\| --- \| --- \| --- \|\n((?:\|.*\|\n?)+)", re.MULTILINE)


def text_of(page: str) -> str:
    """The page of a procedure."""
    return (RUNBOOKS / f"{page}.md").read_text(encoding="utf-8")


def sections(text: str, mark: str = "##") -> dict[str, str]:
    """What stands below each heading of one level."""
    return dict(part.split("\n", 1) for part in re.split(rf"^{mark} ", text, flags=re.MULTILINE)[1:])


def dates_of(head: str) -> list[datetime.date]:
    """The days of the last review and of the last exercise, and none if the line is not as it must be."""
    found = re.search(
        r"^Reviewed: (\d{4}-\d\d-\d\d)\. Last exercised: (\d{4}-\d\d-\d\d), on .+, by .+\.$", head, flags=re.MULTILINE
    )
    return [datetime.date.fromisoformat(day) for day in found.groups()] if found else []


def problems_of(section: str) -> list[str]:
    """What a step's section lacks of the form."""
    parts = re.findall(r"^\*\*([A-Z][^*]*\.)\*\*(.*)$", section, flags=re.MULTILINE)
    problems = [] if [name for name, _ in parts] == PARTS else [f"parts are {[name for name, _ in parts]}"]
    problems += [f"{name} says nothing" for name, said in parts if name != PARTS[-1] and not said.strip()]
    waits = dict(parts).get("Waits at most.", "")
    problems += [] if re.search(r"[Nn]othing|\d+ s\b|\(\d+\)", waits) else [f"no figure in: {waits}"]
    table = TABLE.search(section.partition(f"**{PARTS[-1]}**")[2])
    if table is None:
        return [*problems, "no table after what happens if it fails"]
    rows = [row.strip("| ").split(" | ") for row in table.group(1).strip().splitlines()]
    return problems + [f"row {row}" for row in rows if len(row) != 3 or not all(cell.strip() for cell in row)]


def cells(row: str) -> int:
    """How many cells a row of a table has; a bar within code, or behind a backslash, ends no cell."""
    return len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", row)))


@pytest.mark.parametrize("page", sorted(RUNBOOKS.rglob("*.md")), ids=lambda path: path.stem)
def test_every_row_of_a_table_has_the_cells_of_its_head(page: Path) -> None:
    """A row with more or fewer is shown shifted, or not at all."""
    tables = re.findall(r"^(?:\|.*\n)+", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    rows = [(table.splitlines()[0], row) for table in tables for row in table.splitlines()]
    assert not [row for head, row in rows if cells(row) != cells(head)]


#: Pages of procedures that make faults alone exercises on a lab: its results are kept by commit, not by day.
WITHOUT_DAY = ("abort_procedure",)


@pytest.mark.parametrize("page", [*PAGES, *WATCHERS])
def test_the_head_says_what_it_does_and_when_it_was_looked_at(page: str) -> None:
    """One sentence, then both days, in ISO form and not in the future."""
    title, does, line = text_of(page).split("\n\n")[:3]
    # A title must not take the anchor of a step's heading.
    name = f"The DAG {page}" if page in sections(text_of(page)) else page
    assert title == f"# {name}" and re.fullmatch(r"[A-Z][^.\n]+\.", does)
    if page in WITHOUT_DAY:
        assert "Last exercised: no date is on record; on the lab" in line
        line = line.replace("no date is on record;", f"{datetime.date.min.isoformat()},")
    days = dates_of(line)
    assert len(days) == 2 and all(day <= datetime.datetime.now(datetime.UTC).date() for day in days)


@pytest.mark.parametrize("page", PAGES)
def test_the_first_minute_is_a_small_table(page: str) -> None:
    """Where clients are, whether open_target has begun, what to click; first of all, and short."""
    head = text_of(page).partition("\n## ")[0]
    assert next(iter(sections(head, "###"))) == "First 60 seconds"
    box = sections(head, "###")["First 60 seconds"]
    rows = [line for line in box.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in rows[0].strip("|").split("|")][1:] == ["clients are", "`open_target`", "click"]
    assert 3 <= len(rows) - 2 <= 6 and all(line.count(" | ") == 3 for line in rows)


@pytest.mark.parametrize("page", WATCHERS)
def test_the_first_minute_of_a_watcher_says_whether_it_works(page: str) -> None:
    """It moves nobody: whether it runs, what it means if not, and what to do."""
    head = text_of(page).partition("\n## ")[0]
    assert next(iter(sections(head, "###"))) == "First 60 seconds" and TABLE.search(head)


@pytest.mark.parametrize("page", sorted(p.stem for p in RUNBOOKS.glob("*.md") if p.stem != "README"))
def test_every_page_is_found_from_the_first(page: str) -> None:
    """README.md links each."""
    assert f"({page}.md" in text_of("README")


@pytest.mark.parametrize("page", MOVES)
def test_every_outcome_is_explained(page: str) -> None:
    """How it ends: the vocabulary's outcomes, each once."""
    ends = sections(text_of(page).partition("\n## ")[0], "###")["How it ends"]
    assert sorted(re.findall(r"^\| `(\w+)` \|", ends, flags=re.MULTILINE)) == sorted(o.value for o in Outcome)


@pytest.mark.parametrize("page", PAGES)
def test_people_are_named_with_a_sentence_to_copy(page: str) -> None:
    """Approver, owners and stakeholders, each with what to say; what differs from run to run is in brackets."""
    table = sections(text_of(page).partition("\n## ")[0], "###")["Whom to ask and to tell"]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    whom = [row.strip("| ").split(" | ")[0] for row in rows]
    assert [re.split(r"[ :]", name)[0] for name in whom] == ["approver", "owners", "stakeholders"]
    assert all(re.search(r'"[^"]*\[[^]]+\][^"]*"', row) for row in rows)


@pytest.mark.parametrize(("page", "step"), [(page, step) for page in PAGES for step in sections(text_of(page))])
def test_every_step_has_the_four_parts(page: str, step: str) -> None:
    """Does, Proves, Waits at most, If it fails with its table, in this order and not empty."""
    assert problems_of(sections(text_of(page))[step]) == []


@pytest.mark.parametrize(("page", "step"), [(page, step) for page in PAGES for step in sections(text_of(page))])
def test_deadlines_of_a_wait_are_the_codes(page: str, step: str) -> None:
    """A deadline's default behind its name is that of the page of deadlines."""
    known = dict(
        re.findall(r"^\| `(\w+_seconds)` \| (\d+) \|", text_of("params_and_deadlines"), flags=re.MULTILINE),
    )
    said = re.findall(r"`(\w+_seconds)` \((\d+)\)", sections(text_of(page))[step])
    assert [(name, seconds) for name, seconds in said if known.get(name) != seconds] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_gate_says_what_follows_a_rejection(page: str) -> None:
    """And silence, which counts as one."""
    gates = {step: said for step, said in sections(text_of(page)).items() if step in GATES}
    assert len(gates) >= {
        "abort_procedure": 0,
        "restore_group_offsets": 1,
        "change_replication": 1,
        "lost_cluster": 1,
    }.get(page, 2)
    assert [
        step for step, said in gates.items() if "| `... was rejected`, `... was not answered in time` |" not in said
    ] == []


GOOD = """
**Does.** Acts.

**Proves.** Something.

**Waits at most.** Nothing.

**If it fails.**

| you see | means | do |
| --- | --- | --- |
| red | broken | mend it |
"""


def test_a_section_that_is_not_in_form_is_found() -> None:
    """A part that is missing, empty or in another place, and a table that is missing or has an empty cell."""
    assert problems_of(GOOD) == []
    for line in GOOD.splitlines():
        if line.startswith(("**", "| you see", "| red")):
            assert problems_of(GOOD.replace(line + "\n", "")), line
    first, second = GOOD.splitlines()[1:4:2]
    assert problems_of(GOOD.replace(first, "swap").replace(second, first).replace("swap", second))
    for wrong in (GOOD.replace(" Nothing.", ""), GOOD.replace("Nothing.", "Long."), GOOD.replace("broken", "")):
        assert problems_of(wrong), wrong


@pytest.mark.parametrize("line", ["", "Reviewed: 26.11.2026. Last exercised: 2026-11-26, on a lab, by a test."])
def test_a_head_without_dates_is_found(line: str) -> None:
    """No line, and a day that is not in ISO form."""
    assert dates_of(line) == []
