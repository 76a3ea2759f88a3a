"""Lists all drills, failovers, failbacks and refusals of a period, from the evidence in a folder.

    python -m kafka_dr.commands.period_report [FOLDER] --from 2026-01-01 --to 2026-12-31 [--source A --target B]

FOLDER is the evidence folder, with a folder for each procedure; without it that of the topology (KAFKA_DR_TOPOLOGY).
The report is written there as HTML and as JSON. Days are those of UTC, the last one included. Evidence that cannot be
read is named and skipped.
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

from kafka_dr.commands.command_line import command_parser
from kafka_dr.config.settings import load_topology
from kafka_dr.domain.canonical_json import read_json
from kafka_dr.domain.drill.period import UNREADABLE, PeriodRow, ReportPeriod, period_document, read_row
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.private_files import private_file, private_folder
from kafka_dr.pages import render_page


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if the report was written, 2 if not."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.first > options.last:
        parser.error(f"--from {options.first} is after --to {options.last}")
    try:
        options.folder = options.folder or Path(load_topology().evidence)
        document = _document(options)
        texts = {
            "json": json.dumps(document, indent=2, ensure_ascii=False) + "\n",
            "html": render_page("period.html.j2", p=document),
        }
        paths = [_written(options, ending, text) for ending, text in texts.items()]
    except (OSError, SwitchbackError) as error:
        print(f"no report was written: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    for one in document["unread"]:
        print(f"skipped: {one['file']}: {one['why']}", file=sys.stderr)
    for path in paths:
        print(path)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("period_report", __doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="the evidence folder; else that of the topology")
    parser.add_argument("--from", dest="first", type=_day, required=True, help="first day, YYYY-MM-DD")
    parser.add_argument("--to", dest="last", type=_day, required=True, help="last day, YYYY-MM-DD")
    parser.add_argument("--source", help="only procedures from this cluster")
    parser.add_argument("--target", help="only procedures to this cluster")
    parser.add_argument("--out", type=Path, help="folder for the report; without it the evidence folder")
    return parser


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no day of the form YYYY-MM-DD") from None


def _document(options: argparse.Namespace) -> dict[str, Any]:
    """Return the report's content; raise OSError if the evidence folder cannot be read."""
    end = min(datetime.combine(options.last, time.max, UTC), datetime.now(UTC))
    period = ReportPeriod(datetime.combine(options.first, time.min, UTC), end, options.source, options.target)
    unread: list[dict[str, str]] = []
    rows = list(_rows(options.folder, unread))
    return period_document(rows, period, _watched_flows(options.folder), unread)


def _rows(folder: Path, unread: list[dict[str, str]]) -> Iterator[PeriodRow]:
    """Yield a row for each evidence file; add what cannot be read to `unread`."""
    for place in sorted(folder.iterdir()):
        path = place / "evidence.json"
        if not place.is_dir() or not path.exists():
            continue
        name = str(path.relative_to(folder))
        try:
            yield read_row(read_json(path.read_bytes()), place.name)
        except OSError as error:
            unread.append({"file": name, "why": f"the file cannot be read: {error.strerror}"})
        except UNREADABLE as error:
            unread.append({"file": name, "why": f"the file is no evidence: {type(error).__name__}: {error}"[:300]})


def _watched_flows(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the flows that readiness_check watches, by its documents in the evidence folder."""
    for path in sorted((folder / "readiness").glob("*.json")):
        try:
            document = read_json(path.read_bytes())
            yield str(document["source"]), str(document["target"])
        except (OSError, *UNREADABLE):
            continue


def _written(options: argparse.Namespace, ending: str, text: str) -> Path:
    """Write one file of the report and return its path; the file is complete or not there."""
    folder = private_folder(options.out or options.folder)
    path = folder / f"period_report_{options.first}_{options.last}.{ending}"
    aside = private_file(folder / f".{path.name}.{uuid.uuid4().hex}.writing")
    aside.write_text(text, encoding="utf-8", errors="surrogatepass")
    return aside.replace(path)


if __name__ == "__main__":
    sys.exit(main())
