"""Write the parts of pages that are made from the code: the topology's reference, and the rights.

`python -m kafka_dr.commands.write_reference runbooks`, after a key of the topology or a right was changed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from kafka_dr.config.file.reference import flatten_keys, reference_tables
from kafka_dr.domain.doctor.rights_page import rights_sections

#: Stands on each page before its part.
BEGINS = "<!-- From here on written by kafka_dr.commands.write_reference -->\n"
_EXAMPLE = "examples/topologies/every_key.yaml"


def main(arguments: list[str] | None = None) -> None:
    """Write the ends of two pages in a folder; values of keys are those of the example of every key there."""
    (folder,) = map(Path, sys.argv[1:] if arguments is None else arguments)
    example = yaml.load((folder / _EXAMPLE).read_text(encoding="utf-8"), yaml.BaseLoader)  # noqa: S506 (a loader of texts alone)
    _write_end(folder / "topology_reference.md", reference_tables(first_of_each(example)))
    _write_end(folder / "rights.md", f"{rights_sections()}\n")


def _write_end(page: Path, text: str) -> None:
    head = page.read_text(encoding="utf-8").partition(BEGINS)[0]
    page.write_text(f"{head}{BEGINS}\n{text}", encoding="utf-8")


def first_of_each(example: object) -> dict[str, object]:
    """Return path of a key -> the first value that an example has there."""
    values: dict[str, object] = {}
    for path, value in flatten_keys(example):
        values.setdefault(path, value)
    return values


if __name__ == "__main__":
    main()
