"""Start the demo application on a lab: `python -m lab.clients --state DIR --topic T --group G`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.clients.application import Application, ClientPlan
from lab.clients.supervisor import run_application
from lab.environment.state import Lab


def main(arguments: Sequence[str]) -> None:
    """Run the demo application's producers and consumers on a lab until the application is stopped."""
    parser = argparse.ArgumentParser(prog="python -m lab.clients", description=__doc__)
    parser.add_argument("--state", required=True, help="the lab's state folder")
    parser.add_argument("--topic", action="append", required=True, help="local topic name; can be repeated")
    parser.add_argument("--group", action="append", default=[], help="group of one consumer; once for each consumer")
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--rate", type=float, default=50.0, help="records per second of each producer")
    parser.add_argument("--folder", type=Path, help="folder for clients' event logs (default: <state>/clients)")
    parser.add_argument("--until-eof", action="store_true", help="also end when the standard input ends")
    options = parser.parse_args(arguments)
    topics = tuple(options.topic)
    producers = [ClientPlan(f"producer-{n}", topics, rate=options.rate) for n in range(options.producers)]
    consumers = [ClientPlan(f"consumer-{n}", topics, group) for n, group in enumerate(options.group)]
    run_application(
        Application.on(
            Lab(options.state).status(), producers + consumers, options.folder or Path(options.state) / "clients"
        ),
        options.until_eof,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
