"""Reads the free texts of the gate sign_off_drill.

Invariant: each line of a text is either understood or kept verbatim with the reason why not; no line is dropped.

In `findings_owners` a line is one of

    ID: OWNER, due YYYY-MM-DD
    ID: accepted by NAME, REASON
    ID: closed, WHAT WAS DONE
    NEW: OWNER, due YYYY-MM-DD, WHAT WAS FOUND
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from kafka_dr.domain.drill.facts import Participant, SignOffAnswer
from kafka_dr.domain.plain_text import first_few

TEXTS = ("scenario", "third_parties", "observers", "findings_owners", "conclusion")
NEW = "NEW"
_FORMS = (
    "`ID: OWNER, due YYYY-MM-DD`, `ID: accepted by NAME, REASON`, `ID: closed, WHAT WAS DONE` or"
    " `NEW: OWNER, due YYYY-MM-DD, WHAT WAS FOUND`"
)
_LINE = re.compile(r"[-*\s]*(?P<id>[\w-]+)\s*:\s*(?P<said>.*\S)\s*")
_OWNER = re.compile(
    r"(?P<owner>[^,].*?)\s*,\s*due(?:\s+date)?\s+(?P<due>[^\s,]+)(?:\s*,\s*(?P<text>.*))?", re.IGNORECASE
)
_ACCEPTED = re.compile(r"accepted\b(?:\s+by\s+(?P<by>[^,]+?))?\s*(?:,\s*(?P<text>.*))?", re.IGNORECASE)
_CLOSED = re.compile(r"closed\b\s*(?:,\s*(?P<text>.*))?", re.IGNORECASE)


@dataclass(frozen=True)
class FindingAnswer:
    """What a person said about one finding.

    Attributes:
        id: the finding; NEW for one that the person reports.
        state: open, accepted or closed.
        owner, due: who mends the finding, and until when (YYYY-MM-DD); None if the line does not say so.
        by: who accepted or closed the finding.
        text: why it was accepted, what was done, or what was found.
    """

    id: str
    state: str
    owner: str | None = None
    due: str | None = None
    by: str | None = None
    text: str = ""


@dataclass(frozen=True)
class UnreadLine:
    """A line that could not be understood, verbatim, and why."""

    by: str
    line: str
    why: str


@dataclass(frozen=True)
class SignOff:
    """What all answers to the gate say together."""

    scenario: Sequence[str]
    third_parties: Sequence[str]
    observers: Sequence[Participant]
    conclusions: Sequence[str]
    answers: Sequence[FindingAnswer]
    unread: Sequence[UnreadLine]


def read_sign_offs(sign_offs: Sequence[SignOffAnswer], known: Collection[str]) -> SignOff:
    """Return what the answers say, in the order of the answers.

    Args:
        known: ids of the findings that a line may name.
    """
    read = [line for one in sign_offs for line in _read_lines(one, known)]
    return SignOff(
        scenario=_texts(sign_offs, "scenario"),
        third_parties=_texts(sign_offs, "third_parties"),
        observers=[person for one in sign_offs for person in _observers(one)],
        conclusions=_texts(sign_offs, "conclusion"),
        answers=[line for line in read if isinstance(line, FindingAnswer)],
        unread=[line for line in read if isinstance(line, UnreadLine)] + list(_other_texts(sign_offs)),
    )


def _texts(sign_offs: Sequence[SignOffAnswer], name: str) -> list[str]:
    return [text.strip() for one in sign_offs if (text := one.texts.get(name, "")).strip()]


def _observers(sign_off: SignOffAnswer) -> Iterator[Participant]:
    """Yield people: one a line or between commas, as `NAME` or `NAME: ROLE`."""
    for part in re.split(r"[,\n]", sign_off.texts.get("observers", "")):
        name, _, role = (piece.strip() for piece in part.partition(":"))
        if name or role:
            yield Participant(name or role, role if name and role else "observed")


def _other_texts(sign_offs: Sequence[SignOffAnswer]) -> Iterator[UnreadLine]:
    for one in sign_offs:
        for name, text in one.texts.items():
            if name not in TEXTS and text.strip():
                yield UnreadLine(one.by, text, f"the gate has no text with the name {name}")


def _read_lines(sign_off: SignOffAnswer, known: Collection[str]) -> Iterator[FindingAnswer | UnreadLine]:
    ids = {one.upper(): one for one in known}
    for line in sign_off.texts.get("findings_owners", "").splitlines():
        if line.strip():
            answer = _read_line(line, ids, sign_off.by)
            yield answer if isinstance(answer, FindingAnswer) else UnreadLine(sign_off.by, line, answer)


def _read_line(line: str, ids: dict[str, str], by: str) -> FindingAnswer | str:
    """Return what a line says, or why it cannot be understood."""
    parts = _LINE.fullmatch(line)
    if parts is None:
        return f"the line has none of the forms {_FORMS}"
    given, said = parts["id"].upper(), parts["said"]
    if given == NEW:
        return _new_finding(said)
    if given not in ids:
        listed = first_few(sorted(ids.values())) or "none"
        return f"no finding has the id {parts['id']}; the ids are: {listed}"
    return _known_finding(ids[given], said, by)


def _known_finding(finding: str, said: str, by: str) -> FindingAnswer | str:
    if accepted := _ACCEPTED.fullmatch(said):
        if not accepted["by"] or not accepted["text"]:
            return "an acceptance names who accepts and why: `ID: accepted by NAME, REASON`"
        return FindingAnswer(finding, "accepted", by=accepted["by"], text=accepted["text"])
    if closed := _CLOSED.fullmatch(said):
        done = closed["text"]
        if not done or re.fullmatch(r"due\b.*", done, re.IGNORECASE):
            return "a closed finding says what was done: `ID: closed, WHAT WAS DONE`"
        return FindingAnswer(finding, "closed", by=by, text=done)
    return _owned(finding, said, text_needed=False)


def _new_finding(said: str) -> FindingAnswer | str:
    return _owned(NEW, said, text_needed=True)


def _owned(finding: str, said: str, text_needed: bool) -> FindingAnswer | str:
    owned = _OWNER.fullmatch(said)
    if owned is None:
        return f"the line has none of the forms {_FORMS}"
    if not _is_date(owned["due"]):
        return f"{owned['due']} is no date of the form YYYY-MM-DD"
    if text_needed and not owned["text"]:
        return "a new finding says what was found: `NEW: OWNER, due YYYY-MM-DD, WHAT WAS FOUND`"
    return FindingAnswer(finding, "open", owned["owner"], owned["due"], text=owned["text"] or "")


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
