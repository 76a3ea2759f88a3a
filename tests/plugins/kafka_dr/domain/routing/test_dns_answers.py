"""DNS names and answers, as they compare."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.routing.dns_answers import DnsAnswers, alias_of, certificate_covers, full_name, name_problem

LABELS = st.from_regex(r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,8}[a-zA-Z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=2, max_size=4).map(".".join).filter(lambda name: not name.replace(".", "").isdigit())


@given(NAMES)
def test_case_and_final_dot_do_not_matter(name: str) -> None:
    """To the name, and to a record that leads to it."""
    assert name_problem(name) is None and name_problem(f"{name}.") is None
    assert full_name(name.upper()) == full_name(f"{name.lower()}.")
    assert DnsAnswers.stated(name) == DnsAnswers.of([("CNAME", f"{name.upper()}.")])


@pytest.mark.parametrize(
    "name",
    ["", "kafka", "kafka.", "a..b", "-a.b", "a-.b", "a b.c", "192.0.2.1", "x" * 64 + ".b", "a." * 127 + "toolong"],
)
def test_what_is_no_full_name_is_refused(name: str) -> None:
    """A name of one label, an address, and characters that no host name has."""
    assert name_problem(name)


def test_answers_lead_to_the_cluster_that_has_exactly_them() -> None:
    """Fewer or more addresses are those of no cluster; text lists types in one order."""
    expected = {"east": DnsAnswers.stated("east.example.com"), "west": DnsAnswers.stated(["192.0.2.2", "192.0.2.1"])}
    assert alias_of(DnsAnswers.of([("A", "192.0.2.1"), ("A", "192.0.2.2")]), expected) == "west"
    assert alias_of(DnsAnswers.of([("A", "192.0.2.1")]), expected) is None
    assert alias_of(DnsAnswers(), expected) is None and str(DnsAnswers()) == "nothing"
    assert str(DnsAnswers.stated(["2001:db8::0:1", "192.0.2.1"])) == "A 192.0.2.1, AAAA 2001:db8::1"


@pytest.mark.parametrize(
    ("names", "covered"),
    [
        (["kafka.example.com"], True),
        (["KAFKA.example.com."], True),
        (["b1.example.com", "*.example.com"], True),
        (["*.com"], False),
        (["*.kafka.example.com"], False),
        (["other.example.com"], False),
        ([], False),
    ],
)
def test_a_certificate_covers_a_name(names: list[str], covered: bool) -> None:
    """By the whole name, or by a wildcard for its first label alone."""
    assert certificate_covers(names, "kafka.example.com.") is covered
