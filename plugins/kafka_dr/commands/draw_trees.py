"""Draw the decision trees of diagnose_replication, and write the part of their page that explains the ends.

`python -m kafka_dr.commands.draw_trees runbooks`, after a tree was changed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kafka_dr.domain.diagnosis.picture import draw_trees, explain_ends

#: Stands on the page before the sections that this command writes.
BEGINS = "<!-- From here on written by kafka_dr.commands.draw_trees -->\n"


def main(arguments: list[str] | None = None) -> None:
    """Write `diagnose_replication.svg` to a folder, and the end of `diagnose_replication.md` there."""
    (folder,) = map(Path, sys.argv[1:] if arguments is None else arguments)
    (folder / "diagnose_replication.svg").write_text(draw_trees(), encoding="utf-8")
    page = folder / "diagnose_replication.md"
    head = page.read_text(encoding="utf-8").partition(BEGINS)[0]
    page.write_text(f"{head}{BEGINS}\n{explain_ends()}", encoding="utf-8")


if __name__ == "__main__":
    main()
