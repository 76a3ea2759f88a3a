"""Accept the journal as it is, although it lacks or contradicts anchored entries.

    python -m kafka_dr.commands.accept_journal --source ALIAS --target ALIAS --as NAME --reason TEXT

Each cluster that answers gets an anchor of a new generation, with name and reason; older anchors, also those on a
cluster that does not answer, no longer count. The journal gets an entry that lists what it lacked.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kafka_dr.commands.command_line import command_parser
from kafka_dr.errors import BadInput, Contradiction, SwitchbackError
from kafka_dr.procedure.anchors import find_broken_link
from kafka_dr.procedure.entries import JournalAccepted
from kafka_dr.procedure.find import run_between
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if the journal is accepted or needs no acceptance, 2 if nothing was changed."""
    options = _parser().parse_args(arguments)
    try:
        procedure = run_between(options.source, options.target, "accept_journal")
        print(accept_journal(procedure, options.user, options.reason))
    except SwitchbackError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("accept_journal", __doc__)
    parser.description, parser.formatter_class = __doc__, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--source", required=True, help="one cluster that has anchors of the journal")
    parser.add_argument("--target", required=True, help="the other cluster")
    parser.add_argument("--as", dest="user", required=True, help="your name")
    parser.add_argument("--reason", required=True, help="why the journal is right as it is")
    return parser


def accept_journal(procedure: Run, user: str, reason: str) -> str:
    """Accept the journal of a run's clusters, and return what it lacked as text.

    Raises:
        BadInput: name or reason is empty, or the topology names the journal's key and the command does not have it.
        Contradiction: the journal's own chain of hashes is broken, which no acceptance mends.
        SystemUnavailable: no cluster took the new anchor.
    """
    if not user.strip() or not reason.strip():
        raise BadInput("Name or reason is missing", "", "Give --as YOUR_NAME and --reason TEXT.")
    if unsigned := procedure.signatures.unsigned_because:
        raise BadInput(
            "The acceptance cannot be signed, and would not count",
            unsigned,
            "Set SWITCHBACK_JOURNAL_KEY to the file with the journal's private key, then repeat the command.",
        )
    if broken := find_broken_link(procedure.journal.links()):
        raise Contradiction(
            "The journal's own chain of hashes is broken",
            broken,
            "An acceptance does not mend it: restore the journal's database from a backup.",
        )
    anchors = procedure.anchors
    lacks = anchors.list_contradictions()
    if not lacks:
        return "The journal has every anchored entry: nothing to accept."
    fact = JournalAccepted(accepted_by=user.strip(), reason=reason.strip(), lacked=lacks)
    procedure.journal.witness = lambda entry: anchors.begin_generation(entry, f"{user.strip()}: {reason.strip()}")
    procedure.journal.append(procedure.id, Step.OPEN_PROCEDURE, fact.kind, 0, fact.payload())
    missing = [f"Not anchored on {place}: {why}" for place, why in sorted((anchors.unread | anchors.unwritten).items())]
    return "\n".join(["Accepted. The journal lacked:", *lacks, *missing])


if __name__ == "__main__":
    sys.exit(main())
