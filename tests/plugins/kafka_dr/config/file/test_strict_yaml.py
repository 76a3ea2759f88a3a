"""The YAML that a topology may be written in."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.config.file.strict_yaml import LARGEST_FILE, place_text, read_yaml
from kafka_dr.errors import BadInput

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi")
)


def write(folder: Path, content: str | bytes) -> Path:
    """Writes a file of any content."""
    path = folder / "file.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_lines_of_every_place(tmp_path: Path) -> None:
    """Every key and item knows its line, and a place that is missing has that of the nearest one around it."""
    document = read_yaml(write(tmp_path, "a:\n  b: 1\n  c:\n    - x\n    - y\n"))
    assert document.data == {"a": {"b": 1, "c": ["x", "y"]}}
    found = [document.line_of(place) for place in ((), ("a",), ("a", "b"), ("a", "c", 1), ("a", "b", "z"))]
    assert found == [1, 1, 2, 5, 2]


def test_duplicate_keys_are_named_with_both_lines(tmp_path: Path) -> None:
    """A key that stands twice, at any depth, is a problem that names both lines."""
    document = read_yaml(write(tmp_path, "a: 1\nb:\n  c: 1\n  c: 2\na: 3\n"))
    assert sorted((place, "lines" in text) for place, text in document.problems) == [(("a",), True), (("b", "c"), True)]
    assert "lines 3 and 4" in dict(document.problems)["b", "c"]


@pytest.mark.parametrize("text", ["no: 1", "12: x", "2026-01-01: x", "null: x", "<<: {a: b}"])
def test_keys_that_are_no_text_are_named(tmp_path: Path, text: str) -> None:
    """A key that YAML reads as a boolean, number, date, null or merge is a problem with the advice to quote it."""
    ((_, problem),) = read_yaml(write(tmp_path, text)).problems
    assert "quotes" in problem


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (BOMB, "anchor"),
        ("a: &x 1\nb: *x\n", "anchor"),
        ("a: !!python/object/apply:os.system ['id']", "tag"),
        ("a: !secret x", "tag"),
        ("a: !!str 1", "tag"),
        ("a: [1", "not YAML"),
        ("a: b: c", "not YAML"),
        ("a: 1\n---\nb: 2\n", "not YAML"),
        (b"a: \xff\xfe", "cannot be read"),
        ("a: \x00", "not YAML"),
        ("a: 2026-99-99", "not YAML"),
        ("[" * 5000, "nested"),
        ("{a: " * 13 + "1" + "}" * 13, "nested"),
        (b"a: " + b"x" * LARGEST_FILE, "more than"),
        ("? [a, b]\n: c\n", "not YAML"),
        ("\ta: 1", "not YAML"),
    ],
)
def test_dangerous_or_broken_files_are_refused(tmp_path: Path, content: str | bytes, word: str) -> None:
    """Bombs, tags, deep nesting, huge, broken and binary files are refused quickly, with the reason."""
    with pytest.raises(BadInput, match=word):
        read_yaml(write(tmp_path, content))


def test_broken_file_is_not_repeated_in_the_error(tmp_path: Path) -> None:
    """The error on a broken file says where, and repeats nothing of it."""
    with pytest.raises(BadInput) as error:
        read_yaml(write(tmp_path, "a: 1\npassword: 'hunter2\n"))
    assert "hunter2" not in str(error.value) and "line" in str(error.value)


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    """A missing file or a folder is refused by name."""
    with pytest.raises(BadInput, match="is not a file"):
        read_yaml(tmp_path / name)


def test_device_is_refused() -> None:
    """A device that never ends is not read."""
    with pytest.raises(BadInput, match="is not a file"):
        read_yaml(Path("/dev/zero"))


def test_empty_file_is_nothing(tmp_path: Path) -> None:
    """An empty file has no data and no problems of form."""
    document = read_yaml(write(tmp_path, ""))
    assert (document.data, document.problems) == (None, [])


@given(content=st.one_of(st.binary(max_size=80), st.text(alphabet="a:-[]{},'\"&*!|> \n#?%@`\\<0.~", max_size=40)))
def test_any_content_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: str | bytes) -> None:
    """No content makes another error than BadInput."""
    try:
        read_yaml(write(tmp_path_factory.getbasetemp(), content))
    except BadInput:
        return


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (("flows", 0, "connectors", "source"), "flows[0].connectors.source"),
        (("clusters", "a.b"), "clusters['a.b']"),
        ((), "the whole file"),
        (("a\nb",), "['a\\nb']"),
    ],
)
def test_places_are_written_as_paths(place: tuple[str | int, ...], text: str) -> None:
    """A place is written as a person would, odd keys quoted."""
    assert place_text(place) == text
