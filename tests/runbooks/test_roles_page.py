"""The table of roles on the page is the one that real logins are compared with."""

from __future__ import annotations

from pathlib import Path

from tests.faults.people.test_roles import ACTS, EXPECTED, PAGES

PAGE = Path(__file__).parents[2] / "runbooks" / "approvals_with_fab.md"


def test_the_table_says_what_was_tried() -> None:
    """Each auth manager, each role, each page and each act."""
    section = PAGE.read_text(encoding="utf-8").split("## What each role sees and may do")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line]
    stated = {(row[0], row[1]): [cell == "yes" for cell in row[2:]] for row in rows[2:]}
    assert rows[0][6:] == list(ACTS) and len(rows[0]) == 2 + len(PAGES) + len(ACTS)
    assert stated == {
        (manager, role): [*seen.values(), *may.values()]
        for manager, roles in EXPECTED.items()
        for role, (seen, may) in roles.items()
    }
