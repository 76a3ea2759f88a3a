"""Java's .properties format; the expected answers were taken from java.util.Properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.config.importing.java_properties import read_properties
from kafka_dr.errors import BadInput


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a : b ", {"a": "b "}),
        ("a b c", {"a": "b c"}),
        ("a", {"a": ""}),
        ("  a\t=\t b", {"a": "b"}),
        ("a==b", {"a": "=b"}),
        ("# x\n! y\na=1", {"a": "1"}),
        ("  # x\n\n\na=1", {"a": "1"}),
        ("a=1 # no comment", {"a": "1 # no comment"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# c", {"a": "b# c"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("# a\\\nb=c", {"b": "c"}),
        ("a\\ b=c", {"a b": "c"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=\\u0041\\t\\x", {"a": "A\tx"}),
        ("a=.*\\.internal", {"a": ".*.internal"}),
        ("a=.*\\\\.internal", {"a": ".*\\.internal"}),
        ("x->y.topics = a, b", {"x->y.topics": "a, b"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("", {}),
        ("=b", {"": "b"}),
        ("a=b\\", {"a": "b"}),
        ("\\\r\n", {}),
        ("a=b\\\r\n  c", {"a": "bc"}),
        ("a=\\\\u0041", {"a": "\\u0041"}),
    ],
)
def test_reads_as_java_does(text: str, expected: dict[str, str]) -> None:
    """Separators, comments, continuations and escapes as Java reads them; the last of equal keys holds."""
    assert {entry.key: entry.value for entry in read_properties(text)} == expected


def test_entries_know_their_lines() -> None:
    """An entry has the number of its first line, and its lines before escapes were read."""
    first, second = read_properties("# c\na = x\\\n  y\\.\n\nb=1")
    assert (first.line, first.value, first.written) == (2, "xy.", "a = x\\\n  y\\.\n")
    assert (second.line, second.key) == (5, "b")


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uZZZZ", "\\u=1", "a=secret\\u00"])
def test_bad_unicode_escapes_are_refused_without_their_text(text: str) -> None:
    """A broken unicode escape is refused with its line, as Java does; nothing of the line is repeated."""
    with pytest.raises(BadInput, match="line 1") as error:
        read_properties(text)
    assert "secret" not in str(error.value)


def test_jaas_configuration_over_lines() -> None:
    """A login configuration over several lines comes out as one value with its quotes."""
    (entry,) = read_properties(
        's.sasl.jaas.config = org.x.ScramLoginModule required \\\n    username="mm2" \\\n    password="p=w:d";\n'
    )
    assert entry.value == 'org.x.ScramLoginModule required username="mm2" password="p=w:d";'


@given(st.text(alphabet="ab=: \t\\\n\r#!u0041x", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes another error than BadInput."""
    try:
        read_properties(text)
    except BadInput:
        return


@given(
    st.dictionaries(
        st.text(st.characters(codec="latin-1"), min_size=1, max_size=10),
        st.text(st.characters(codec="latin-1"), max_size=10),
        max_size=4,
    )
)
def test_round_trip_of_escaped_entries(entries: dict[str, str]) -> None:
    """What is written with every character escaped comes back."""
    text = "".join(
        "".join(f"\\u{ord(c):04x}" for c in key) + "=" + "".join(f"\\u{ord(c):04x}" for c in value) + "\n"
        for key, value in entries.items()
    )
    assert {entry.key: entry.value for entry in read_properties(text)} == entries
