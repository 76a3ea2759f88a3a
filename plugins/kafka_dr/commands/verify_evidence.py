"""Says whether a procedure's evidence is what was written, byte for byte.

    python -m kafka_dr.commands.verify_evidence FOLDER [--journal]

The digest in evidence.json covers all its other fields, among them the SHA-256 of other files. A person who can
change all files can also write a new digest: `--journal` compares the digest with that in the journal, whose entries
are chained by hashes, and the journal with its anchors on both clusters and in the routing record.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import pandas as pd
from jinja2 import UndefinedError

from kafka_dr.actions.drill_report import drill_report_files
from kafka_dr.actions.evidence import evidence_page, evidence_text
from kafka_dr.commands.command_line import add_json, command_parser, print_json
from kafka_dr.config.choices import quoted_value
from kafka_dr.domain.canonical_json import digest_of, read_json
from kafka_dr.errors import SwitchbackError
from kafka_dr.procedure.entries import ProcedureClosed, newest_fact
from kafka_dr.procedure.find import run_between
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Entry, Step

#: Folders with files of records that were read on an old source; for each, the column of the loss file with the files'
#: SHA-256.
LISTS = {"stranded": "sha256", "uncommitted": "uncommitted_sha256"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if the evidence is intact, 1 if it was changed, 2 if it cannot be verified."""
    options = _parser().parse_args(arguments)
    try:
        raw = (options.folder / "evidence.json").read_bytes()
        evidence = _parsed(raw)
        if evidence is None:
            return _report(options, {}, ["evidence.json was changed: it is no JSON object"])
        problems = [
            *changed_evidence(raw, evidence),
            *changed_page(options.folder, evidence),
            *changed_files(options.folder, evidence),
        ]
        if options.journal:
            procedure = run_between(str(evidence.get("source")), str(evidence.get("target")), "verify_evidence")
            problems += [*changed_journal(procedure, evidence), *procedure.anchors.list_contradictions()]
            for place, why in procedure.anchors.unread.items():
                print(f"the journal was not compared with its anchors on {place}: {why}", file=sys.stderr)
    except (OSError, SwitchbackError) as error:
        print(f"the evidence cannot be verified: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return _report(options, evidence, problems)


def _report(options: argparse.Namespace, evidence: Mapping[str, Any], problems: list[str]) -> int:
    """Print what was found; return the exit code."""
    if options.json:
        stated = {name: evidence.get(name) for name in ("procedure_id", "outcome", "digest")}
        print_json({**stated, "intact": not problems, "problems": problems, "journal": options.journal})
        return 1 if problems else 0
    for problem in problems:
        print(problem)
    if problems:
        return 1
    against = "" if options.journal else "; not compared with the journal (--journal)"
    files = len(list(listed_receipts(evidence))) + sum(
        len(listed_files(options.folder, step["figures"])) for step in evidence["steps"]
    )
    print(
        f"{evidence['procedure_id']}: {evidence['outcome']}; {files} files and the page are unchanged, digest"
        f" {evidence['digest']}{against}"
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("verify_evidence", __doc__)
    parser.add_argument("folder", type=Path, help="the procedure's folder, with evidence.json in it")
    parser.add_argument(
        "--journal",
        action="store_true",
        help="compare with the journal too; needs KAFKA_DR_TOPOLOGY and Airflow's connections",
    )
    add_json(parser)
    return parser


def _parsed(raw: bytes) -> dict[str, Any] | None:
    """Return the parsed evidence; None if it is not a JSON object with digest, id, outcome and its steps' files."""
    try:
        evidence = read_json(raw)
        list(listed_receipts(evidence))
        return evidence if {"digest", "procedure_id", "outcome"} <= evidence.keys() else None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def changed_evidence(raw: bytes, evidence: dict[str, Any]) -> Iterator[str]:
    """Yield a problem if the digest does not fit the other fields of evidence.json.

    If the digest fits, yield a problem if the bytes `raw` differ from those that Switchback writes for this evidence.
    """
    digest = digest_of({name: value for name, value in evidence.items() if name != "digest"})
    if digest != evidence["digest"]:
        yield f"evidence.json was changed: it has digest {quoted_value(evidence['digest'])}, its content has {digest}"
    elif raw != evidence_text(evidence).encode("utf-8", "surrogatepass"):
        yield "evidence.json was rewritten: its content is unchanged, its bytes differ"


def changed_page(folder: Path, evidence: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem for each page or report that is not what evidence.json gives when it is rendered now."""
    try:
        expected = {"evidence.html": evidence_page(evidence), **drill_report_files(evidence)}
    except (AttributeError, LookupError, TypeError, ValueError, UndefinedError) as error:
        yield f"evidence.html cannot be compared: no page can be made from evidence.json ({type(error).__name__})"
        return
    for name, text in expected.items():
        path = folder / name
        if not path.is_file():
            yield f"{name} is missing"
        elif path.read_bytes() != text.encode("utf-8", "surrogatepass"):
            yield f"{name} was changed, or made by another version of this program"


def listed_receipts(evidence: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the receipt, a file's name and SHA-256, of every file that a step's figures or notes name."""
    for step in evidence["steps"]:
        for figures in (step["figures"], *step["notes"]):
            yield from filter(_is_receipt, figures.values())


def _is_receipt(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and {"file", "sha256"} <= value.keys()


def listed_files(folder: Path, figures: Mapping[str, Any]) -> dict[Path, str]:
    """Return the lists of lost records that a step wrote when it read an old source: path -> SHA-256.

    Lists and SHA-256s are named in the rows of the file under `loss` in the step's figures. {} if the step read no
    source, or if that file was changed: its rows then prove nothing.
    """
    loss, made = figures.get("loss"), figures.get("stranded")
    if not made or not _is_receipt(loss) or _changed(folder, path := _place(folder, loss), loss["sha256"]):
        return {}
    rows, lists_folder = pd.read_parquet(path), folder / Path(str(made)).name
    named_digests = {
        kind: rows.reindex(columns=["file", column]).dropna().itertuples(index=False) for kind, column in LISTS.items()
    }
    return {
        lists_folder / kind / Path(name).name: digest for kind, named in named_digests.items() for name, digest in named
    }


def changed_files(folder: Path, evidence: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem for each file that is missing, or whose SHA-256 differs from the recorded SHA-256.

    Yield a problem also for each file that lies in a folder with lists of lost records and that `listed_files` lacks.
    """
    yield from filter(
        None, (_changed(folder, _place(folder, receipt), receipt["sha256"]) for receipt in listed_receipts(evidence))
    )
    for step in evidence["steps"]:
        listed = listed_files(folder, step["figures"])
        yield from filter(None, (_changed(folder, path, digest) for path, digest in listed.items()))
        list_folders = {path.parent for path in listed if path.parent.is_dir()}
        yield from (
            f"{path.relative_to(folder)} is listed in no file of the evidence"
            for list_folder in sorted(list_folders)
            for path in sorted(list_folder.iterdir())
            if path not in listed
        )


def _changed(folder: Path, path: Path, digest: str) -> str | None:
    """Return a problem if a file is missing, or has another SHA-256 than `digest`; None if it is unchanged."""
    name = path.relative_to(folder)
    if not path.is_file():
        return f"{name} is missing"
    digest_now = _sha256(path)
    return (
        None if digest_now == digest else f"{name} was changed: SHA-256 {digest} is recorded, the file has {digest_now}"
    )


def _place(folder: Path, receipt: Mapping[str, Any]) -> Path:
    return folder / Path(str(receipt["file"])).name


def changed_journal(procedure: Run, evidence: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem if the journal's chain of hashes is broken.

    Yield a problem also if the journal's newest entry that closes the procedure has another digest, or is missing; and
    for each approval and closing without a valid signature, if the topology names the journal's key.
    """
    journal = procedure.journal
    broken = journal.verify()
    if broken is not None:
        yield f"the journal's entry {broken} is missing or was changed"
        return
    entries = journal.entries(evidence["procedure_id"], Step.CLOSE_PROCEDURE, Entry.CLOSED)
    closed = newest_fact(entries, ProcedureClosed)
    if closed is None:
        yield "the journal has no entry that closes this procedure"
    elif closed.digest != evidence["digest"]:
        yield f"the journal records another digest: {closed.digest}"
    yield from procedure.signatures.list_unsigned(journal.entries(evidence["procedure_id"]))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
