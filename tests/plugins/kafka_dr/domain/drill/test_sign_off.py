"""Sign-offs are read line by line, and nothing that a person wrote is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.drill.facts import Participant, SignOffAnswer
from kafka_dr.domain.drill.sign_off import FindingAnswer, read_sign_offs

KNOWN = ("F-AAAAAA", "F-BBBBBB")
AT = "2026-11-27T02:00:00+00:00"


def answered(owners: str, **texts: str) -> SignOffAnswer:
    """An answer with these lines about findings."""
    return SignOffAnswer("approver", AT, {"findings_owners": owners, **texts})


READ = {
    "owner": ("F-AAAAAA: Ann Lee, due 2027-01-31", FindingAnswer("F-AAAAAA", "open", "Ann Lee", "2027-01-31")),
    "owner with commas, lower-case id, `due date`": (
        "  - f-aaaaaa : Lee, Ann, Due Date 2027-01-31 ",
        FindingAnswer("F-AAAAAA", "open", "Lee, Ann", "2027-01-31"),
    ),
    "accepted": (
        "F-BBBBBB: accepted by Bo Chen, the proxy goes away in May, see T-7",
        FindingAnswer("F-BBBBBB", "accepted", by="Bo Chen", text="the proxy goes away in May, see T-7"),
    ),
    "closed": (
        "F-BBBBBB: closed, quota raised: 40 MB/s",
        FindingAnswer("F-BBBBBB", "closed", by="approver", text="quota raised: 40 MB/s"),
    ),
    "new": (
        "NEW: Ann Lee, due 2027-01-31, the call list, page 2, is old",
        FindingAnswer("NEW", "open", "Ann Lee", "2027-01-31", text="the call list, page 2, is old"),
    ),
}


@pytest.mark.parametrize(("line", "answer"), READ.values(), ids=READ)
def test_each_form_is_read(line: str, answer: FindingAnswer) -> None:
    """Owner and date, acceptance by name with a reason, closing with what was done, a new finding."""
    read = read_sign_offs([answered(line)], KNOWN)
    assert (list(read.answers), list(read.unread)) == ([answer], [])


UNREAD = {
    "no form": ("ask Bob", "none of the forms"),
    "unknown id": ("F-CCCCCC: Ann, due 2027-01-31", "the ids are: F-AAAAAA, F-BBBBBB"),
    "no such day": ("F-AAAAAA: Ann, due 2027-02-30", "2027-02-30 is no date"),
    "another form of date": ("F-AAAAAA: Ann, due 31.1.2027", "31.1.2027 is no date"),
    "owner without date": ("F-AAAAAA: Ann", "none of the forms"),
    "accepted by nobody": ("F-AAAAAA: accepted, it is fine", "names who accepts and why"),
    "accepted without reason": ("F-AAAAAA: accepted by Ann", "names who accepts and why"),
    "closed without what was done": ("F-AAAAAA: closed", "says what was done"),
    "closed with a date alone": ("F-AAAAAA: closed, due 2027-01-31", "says what was done"),
    "new without what was found": ("NEW: Ann, due 2027-01-31", "says what was found"),
}


@pytest.mark.parametrize(("line", "why"), UNREAD.values(), ids=UNREAD)
def test_a_line_that_is_not_understood_is_kept_with_the_reason(line: str, why: str) -> None:
    """It changes no finding, stands there verbatim with its author, and the reason says what would be right."""
    read = read_sign_offs([answered(f"  {line} ")], KNOWN)
    assert not read.answers
    (kept,) = read.unread
    assert (kept.by, kept.line) == ("approver", f"  {line} ") and why in kept.why


@given(st.text(max_size=200))
def test_every_line_is_read_or_kept_verbatim(text: str) -> None:
    """Whatever is written, each line that is not blank is in exactly one place."""
    lines = [line for line in text.splitlines() if line.strip()]
    read = read_sign_offs([answered(text)], KNOWN)
    assert len(read.answers) + len(read.unread) == len(lines)
    assert {kept.line for kept in read.unread} <= set(lines)


WORD = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)


@given(st.sampled_from(KNOWN), WORD, st.dates(), st.sampled_from(["", "- ", "  "]))
def test_every_owner_and_date_is_read_back(finding: str, owner: str, due: object, lead: str) -> None:
    """A line of the first form is understood, whoever the owner and whichever the day."""
    if owner.lower().startswith(("accepted", "closed")):
        return
    read = read_sign_offs([answered(f"{lead}{finding}: {owner}, due {due}")], KNOWN)
    assert [(one.id, one.owner, one.due) for one in read.answers] == [(finding, owner, str(due))]


def test_observers_have_names_and_roles() -> None:
    """One a line or between commas; without a role a person observed."""
    read = read_sign_offs([answered("", observers="Ann Lee: informed, Bo\n\nCy: auditor")], KNOWN)
    assert list(read.observers) == [
        Participant("Ann Lee", "informed"),
        Participant("Bo", "observed"),
        Participant("Cy", "auditor"),
    ]


def test_texts_of_several_answers_stand_in_order_and_a_strange_text_is_kept() -> None:
    """Nothing is overwritten by a later answer, and a text of no known name is not dropped."""
    first, second = (
        answered("", conclusion="good", scenario=" a "),
        answered("", conclusion="seen", remark="by the way"),
    )
    read = read_sign_offs([first, second], KNOWN)
    assert (list(read.conclusions), list(read.scenario)) == (["good", "seen"], ["a"])
    assert [kept.line for kept in read.unread] == ["by the way"]
