"""The page of diagnose_replication and its picture are those that the trees make."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from kafka_dr.commands.draw_trees import BEGINS, main
from kafka_dr.domain.diagnosis.diagnosis import TREES, list_ends
from kafka_dr.domain.diagnosis.picture import draw_trees
from kafka_dr.domain.diagnosis.tree import DiagnosisQuestion, page_of_end

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "runbooks"


def test_page_and_picture_are_up_to_date(tmp_path: Path) -> None:
    """The command that writes them changes nothing; else run it: python -m kafka_dr.commands.draw_trees runbooks."""
    names = ("diagnose_replication.md", "diagnose_replication.svg")
    for name in names:
        (tmp_path / name).write_text((RUNBOOKS / name).read_text(encoding="utf-8"), encoding="utf-8")
    main([str(tmp_path)])
    for name in names:
        assert (tmp_path / name).read_text(encoding="utf-8") == (RUNBOOKS / name).read_text(encoding="utf-8")


def test_every_end_has_its_heading() -> None:
    """With what it means and what to do, below the headings of the steps."""
    head, _, ends = (RUNBOOKS / "diagnose_replication.md").read_text(encoding="utf-8").partition(BEGINS)
    assert "## open_procedure" in head
    assert re.findall(r"^## (\w+)$", ends, flags=re.MULTILINE) == [end.id for end in list_ends()]
    for end in list_ends():
        path, heading = page_of_end(end.id).split("#")
        assert f"\n## {heading}\n\n**Means.** {end.means}\n" in (ROOT / path).read_text(encoding="utf-8")


def test_the_picture_shows_every_tree_question_and_end() -> None:
    """As text that a reader can search, in a file that is XML."""
    texts = ["".join(node.itertext()) for node in ET.fromstring(draw_trees()).iter() if node.tag.endswith("text")]
    questions: list[str] = []

    def collect(node: object) -> None:
        if isinstance(node, DiagnosisQuestion):
            questions.append(node.text)
            for below in node.branches.values():
                collect(below)

    for tree in TREES:
        collect(tree.root)
        assert tree.id.replace("_", " ") in texts
    assert len(questions) > 40 and set(questions) <= set(texts)
    assert {end.id for end in list_ends()} - set(texts) == {"cannot_read"}
