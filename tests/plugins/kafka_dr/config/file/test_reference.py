"""The reference of all keys of a topology: it is that of the code, and its examples can be used."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import pytest
import yaml
from kafka_dr.commands.write_reference import first_of_each, main
from kafka_dr.config.fields import Alias, Model, matching_text
from kafka_dr.config.file.reference import all_keys, flatten_keys, keys_of
from kafka_dr.config.settings import load_topology
from pydantic import Field

RUNBOOKS = Path(__file__).parents[5] / "runbooks"
EXAMPLES = sorted((RUNBOOKS / "examples" / "topologies").glob("*.yaml"))


def test_the_pages_are_those_of_the_code(tmp_path: Path) -> None:
    """If this fails: run `python -m kafka_dr.commands.write_reference runbooks`."""
    shutil.copytree(RUNBOOKS / "examples" / "topologies", tmp_path / "examples" / "topologies")
    pages = ("topology_reference.md", "rights.md")
    for page in pages:
        shutil.copy(RUNBOOKS / page, tmp_path)
    main([str(tmp_path)])
    assert [(tmp_path / page).read_text() for page in pages] == [(RUNBOOKS / page).read_text() for page in pages]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_can_be_used(path: Path) -> None:
    """Each is a topology that nothing refuses."""
    assert load_topology(path).flows


def test_every_key_has_an_example() -> None:
    """Other kinds of a routing record than the example's stand in the other examples."""
    stated = {path for file in EXAMPLES for path, _ in flatten_keys(yaml.safe_load(file.read_text()))}
    assert {key.path for _, _, keys in all_keys() for key in keys} <= stated


def test_what_a_table_says_of_a_key() -> None:
    """Kind with its limits, default, meaning; a key that the docstring leaves out is an error."""

    class Inner(Model):
        """A map.

        Attributes:
            alias: of a cluster.
        """

        alias: Alias

    class Outer(Model):
        """Keys of several kinds.

        Attributes:
            few, many: how many, which
                may be long.
            inside: maps.
            word: a text.
        """

        few: Annotated[int, Field(ge=1, le=9)]
        many: float | None = None
        inside: Annotated[tuple[Inner, ...], Field(min_length=2)] = ()
        word: Annotated[str, matching_text("[a-z]+", 9, "letters")] = "abc"

    few, many, inside, word = keys_of(Outer, "top")
    assert few[:4] == ("top.few", "integer from 1 to 9", "", "How many, which may be long.")
    assert many[1:4] == ("number", "none", few.meaning)
    assert (inside.kind, inside.default, inside.models, inside.below) == (
        "list: <map>, at least 2 entries",
        "none",
        (Inner,),
        "top.inside[]",
    )
    assert (word.kind, word.default) == ("text: letters", "`abc`")
    assert [key.kind for key in keys_of(Inner, inside.below)] == ["alias"]

    class Silent(Model):
        """Says nothing of its key."""

        key: int

    with pytest.raises(LookupError):
        list(keys_of(Silent))


def test_names_that_people_choose() -> None:
    """An alias is no key of the reference; entries of a list share a path."""
    assert first_of_each({"clusters": {"east": {"a": 1}, "west": {"a": 2}}, "flows": [{"b": 3}, {"b": 4}]}) == {
        "clusters": {"east": {"a": 1}, "west": {"a": 2}},
        "clusters.<name>": {"a": 1},
        "clusters.<name>.a": 1,
        "flows": [{"b": 3}, {"b": 4}],
        "flows[].b": 3,
    }
