"""Writes the DAG files into a folder of Airflow; each imports the DAG of the installed package.

    switchback install-dags FOLDER
    switchback install-dags FOLDER --remove

Run it again after an upgrade: files of an older version are replaced, files of DAGs that went are removed. Nothing is
written if one of the names is a file that this command did not write, or that somebody has changed. With --remove all
files are removed that this command wrote, and that nobody has changed since.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from kafka_dr import __version__
from kafka_dr.commands.command_line import MISUSE, add_json, command_parser, print_json
from kafka_dr.errors import BadInput
from kafka_dr.hooks.whole_file import write_whole
from kafka_dr.installation import dags_folder, is_wheel

#: The first line of every file; the digest is that of the rest, so that a file that somebody has changed is known.
_FIRST_LINE = re.compile(r"# Written by `switchback install-dags`, version (\S+), sha256 ([0-9a-f]{64})\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if the folder is as asked, 2 if nothing was written."""
    options = _parser().parse_args(arguments)
    try:
        done = remove_dags(options.folder) if options.remove else install_dags(options.folder)
    except (BadInput, OSError) as error:
        refused = isinstance(error, BadInput)
        print(f"nothing was written: {error}" if refused else f"stopped: {error}", file=sys.stderr)
        return MISUSE
    if options.json:
        print_json({"folder": str(options.folder), "version": __version__, **done})
    else:
        print("\n".join(f"{name}: {what}" for what, names in done.items() for name in names))
        print(
            f"{options.folder} has no DAG file of Switchback; files that somebody changed were left."
            if options.remove
            else f"{options.folder} has the DAG files of Switchback {__version__}."
        )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("install_dags", __doc__)
    parser.add_argument("folder", type=Path, help="a folder from which Airflow reads DAG files")
    parser.add_argument("--remove", action="store_true", help="remove what this command wrote")
    add_json(parser)
    return parser


def install_dags(folder: Path) -> dict[str, list[str]]:
    """Make a folder hold the DAG files of this version; return the files' names by what was done with them.

    Raises:
        BadInput: the package was not installed from a wheel, or a file of the folder is not this command's.
    """
    if not is_wheel():
        raise BadInput(
            "Only an installed package has DAG files to write",
            f"{dags_folder()} are the DAG files of a checkout",
            "Install the wheel (`pip install`) and run its `switchback`, or name that folder in Airflow's DAG bundles.",
        )
    wanted = {path.name: dag_file(path.stem) for path in sorted(dags_folder().glob("*.py"))}
    folder.mkdir(parents=True, exist_ok=True)
    present = _files_in(folder)
    foreign = [name for name in sorted(wanted) if (folder / name).exists() and not _is_ours(present.get(name, ""))]
    if foreign:
        raise BadInput(
            f"{folder} has files of these names that `switchback install-dags` did not write, or that were changed",
            ", ".join(foreign),
            "Move these files away, or name another folder; then run the command again.",
        )
    gone = [name for name, text in present.items() if name not in wanted and _is_ours(text)]
    for name, text in wanted.items():
        if present.get(name) != text:
            write_whole(folder / name, text, 0o644)
    for name in gone:
        (folder / name).unlink()
    return {
        "written": [name for name in wanted if name not in present],
        "replaced": [name for name, text in wanted.items() if present.get(name, text) != text],
        "unchanged": [name for name, text in wanted.items() if present.get(name) == text],
        "removed": gone,
    }


def remove_dags(folder: Path) -> dict[str, list[str]]:
    """Remove the files of this command from a folder, of any version; return their names, and those that were left.

    Files are left that this command did not write, or that somebody has changed, if a DAG of this version has the name.
    """
    wanted = {path.name for path in dags_folder().glob("*.py")}
    present = _files_in(folder)
    ours = [name for name, text in present.items() if _is_ours(text)]
    for name in ours:
        (folder / name).unlink()
    return {"removed": ours, "left": sorted(wanted & present.keys() - set(ours))}


def _files_in(folder: Path) -> dict[str, str]:
    """Return name -> content of the Python files in a folder."""
    return {path.name: path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("*.py"))}


def dag_file(stem: str) -> str:
    """Return the content of one DAG file; Airflow reads files in which the words airflow and dag stand."""
    body = (
        f'"""The DAG {stem} of Switchback, for Airflow. The DAG itself is in the installed package."""\n\n'
        f"from kafka_dr.packaged.dags.{stem} import dag\n\n"
        '__all__ = ["dag"]\n'
    )
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f"# Written by `switchback install-dags`, version {__version__}, sha256 {digest}\n{body}"


def _is_ours(text: str) -> bool:
    """Whether a version of this command wrote this file, and nobody has changed it since."""
    first = _FIRST_LINE.match(text)
    return first is not None and hashlib.sha256(text[first.end() :].encode()).hexdigest() == first.group(2)


if __name__ == "__main__":
    sys.exit(main())
