"""Decision trees: questions with branches, and ends; a walk asks one subject after the other.

Invariants
1. A walk ends at one end, or at none. So the order of the questions tells faults apart that look alike: what explains
   another symptom is asked first.
2. A branch without end says why nothing is found there: the subject is in order, or another tree names the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from kafka_dr.domain.plain_text import first_few

S = TypeVar("S")
MOST_NAMED = 20


class Weight(StrEnum):
    """What an end says: something is wrong, will pass by itself, or is so because somebody chose it."""

    FAULT = "fault"
    PASSING = "passing"
    CHOICE = "choice"


@dataclass(frozen=True)
class DiagnosisEnd:
    """An end of a tree.

    Attributes:
        id: the heading on the page diagnose_replication.
        means: what is wrong, one sentence.
        do: what a person does about it.
    """

    id: str
    means: str
    do: str
    weight: Weight = Weight.FAULT


@dataclass(frozen=True)
class Reply:
    """The answer to a question about one subject: the branch, and what was seen."""

    branch: str
    seen: str = ""


@dataclass(frozen=True)
class NothingFound:
    """The last node of a branch on which there is nothing to find; `why` says why."""

    why: str


@dataclass(frozen=True)
class DiagnosisQuestion(Generic[S]):
    """A node of a tree.

    Attributes:
        text: the question, as the picture shows it.
        ask: answers it for one subject, from facts that were read before.
        branches: answer -> next node.
    """

    text: str
    ask: Callable[[S], Reply]
    branches: Mapping[str, DiagnosisQuestion[S] | DiagnosisEnd | NothingFound]


@dataclass(frozen=True)
class DiagnosisTree(Generic[S]):
    """A tree, and what it is about.

    Attributes:
        id: what is asked about: `clusters`, `topics`, and so on; the name of the facts that it needs.
        name_of: how findings name a subject.
    """

    id: str
    name_of: Callable[[S], str]
    root: DiagnosisQuestion[S]


@dataclass(frozen=True)
class DiagnosisFinding:
    """An end that at least one subject reached.

    Attributes:
        about: names of the subjects, in the order in which they were asked about.
        seen: what was seen of the first of them.
    """

    end: DiagnosisEnd
    about: tuple[str, ...]
    seen: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as the evidence states it: id, weight, about, count, seen, means, do, page."""
        return {
            "id": self.end.id,
            "weight": self.end.weight.value,
            "about": list(self.about[:MOST_NAMED]),
            "count": len(self.about),
            "seen": list(self.seen[:MOST_NAMED]),
            "means": self.end.means,
            "do": self.end.do,
            "page": page_of_end(self.end.id),
        }


def page_of_end(end: str) -> str:
    """Return `runbooks/PAGE.md#HEADING` of an end."""
    return f"runbooks/diagnose_replication.md#{end}"


def finding_text(finding: Mapping[str, Any]) -> str:
    """Return one finding of the evidence as text: what is wrong, about what, what was seen, what to do."""
    about = first_few(finding["about"], 5)
    more = f" and {finding['count'] - len(finding['about'])} more" if finding["count"] > len(finding["about"]) else ""
    seen = f" Seen: {first_few(finding['seen'], 3, '; ')}." if finding["seen"] else ""
    return f"{finding['id']}: {about}{more}. {finding['means']}{seen} Do: {finding['do']} Page: {finding['page']}"


def walk_tree(root: DiagnosisQuestion[S], subject: S) -> tuple[DiagnosisEnd | None, str]:
    """Return the end that a subject reaches and what was seen on the way; None if there is nothing to find."""
    node: DiagnosisQuestion[S] | DiagnosisEnd | NothingFound = root
    seen: list[str] = []
    while isinstance(node, DiagnosisQuestion):
        reply = node.ask(subject)
        seen += [reply.seen] if reply.seen else []
        node = node.branches[reply.branch]
    return (node if isinstance(node, DiagnosisEnd) else None), "; ".join(seen)


def find_ends(tree: DiagnosisTree[S], subjects: Iterable[S]) -> Iterator[DiagnosisFinding]:
    """Yield one finding per end of a tree that a subject reaches, in the order in which they were first reached."""
    reached: dict[DiagnosisEnd, tuple[list[str], list[str]]] = {}
    for subject in subjects:
        end, seen = walk_tree(tree.root, subject)
        if end is not None:
            names, texts = reached.setdefault(end, ([], []))
            names.append(tree.name_of(subject))
            texts += [seen] if seen and seen not in texts else []
    for end, (names, texts) in reached.items():
        yield DiagnosisFinding(end, tuple(dict.fromkeys(names)), tuple(texts))


def ends_below(node: DiagnosisQuestion[Any] | DiagnosisEnd | NothingFound) -> Iterator[DiagnosisEnd]:
    """Yield the ends below a node, in the order of the tree; an end that several branches share comes once for each."""
    if isinstance(node, DiagnosisEnd):
        yield node
    elif isinstance(node, DiagnosisQuestion):
        for branch in node.branches.values():
            yield from ends_below(branch)
