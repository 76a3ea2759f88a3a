"""Makes a topology file and Airflow connections from MirrorMaker 2's configuration.

The configuration is an mm2.properties file, the connectors of Connect workers, or a Strimzi resource KafkaMirrorMaker2:

    python -m kafka_dr.commands.make_topology mm2.properties --out topology.yaml --connections DIR
    python -m kafka_dr.commands.make_topology --connect-worker connect_west --out topology.yaml --connections DIR
    python -m kafka_dr.commands.make_topology mirror-maker.yaml --out topology.yaml --connections DIR
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from kafka_dr.commands.command_line import add_json, command_parser, print_json
from kafka_dr.config.file.strict_yaml import read_text, read_yaml
from kafka_dr.config.importing.client_settings import for_librdkafka
from kafka_dr.config.importing.connect_workers import topology_from_connect
from kafka_dr.config.importing.mirror_maker_properties import Converted, topology_from_properties
from kafka_dr.config.importing.strimzi import topology_from_strimzi
from kafka_dr.config.settings import check_topology
from kafka_dr.domain.logins.certificate_principal import DEFAULT_RULES, principal_of_subject
from kafka_dr.errors import BadInput, SwitchbackError
from kafka_dr.hooks.brokers.cluster import KafkaCluster
from kafka_dr.hooks.connect.worker_reader import WorkerReader
from kafka_dr.hooks.logins.key_store import subject_of_client
from kafka_dr.hooks.whole_file import write_whole

_ASK_SECONDS = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if all files were written, 2 if the input was refused or a write failed."""
    options = _parser().parse_args(arguments)
    try:
        converted = _converted(options)
        made_from = options.file or ", ".join(options.connect_worker)
        check_topology(converted.topology, f"the topology made from {made_from}")
        files = _files(converted, options.out, options.connections)
        _refuse_to_overwrite(files, options.force)
        for path, text in files.items():
            _write(path, text, secret=path != options.out)
    except (SwitchbackError, OSError) as error:
        message = (
            f"nothing was written: {error}"
            if isinstance(error, SwitchbackError)
            else f"stopped: {error.strerror}: {error.filename}"
        )
        print(message, file=sys.stderr)
        return 2
    if options.json:
        print_json(_document(converted, options.out, list(files)[1:]))
    else:
        print(_report(converted, options.out, list(files)[1:]))
    return 0


def _converted(options: argparse.Namespace) -> Converted:
    """Return what is made of the file, or of the connectors of the Connect workers, that the command line names."""
    if bool(options.file) == bool(options.connect_worker):
        raise BadInput(
            "The command line names no configuration, or two",
            f"file: {options.file}; --connect-worker: {', '.join(options.connect_worker) or 'none'}",
            "name a file, or one or more --connect-worker",
        )
    principal = partial(_certificate_principal, options.mapping_rules, options.ask_brokers)
    if options.connect_worker:
        workers = {connection: _connectors_of(connection) for connection in options.connect_worker}
        return topology_from_connect(workers, options.template, principal)
    if options.file.suffix in (".yaml", ".yml"):
        return topology_from_strimzi(read_yaml(options.file).data, options.template)
    # Java reads properties files as ISO-8859-1.
    text = read_text(options.file, "MirrorMaker 2's configuration file", "ISO-8859-1")
    return topology_from_properties(text, options.worker, options.template, principal)


def _connectors_of(connection: str) -> dict[str, dict[str, str]]:
    """Return the configurations of a Connect worker's connectors, with their secrets."""
    from kafka_dr.connections import Connections  # noqa: PLC0415 (slow to load, and a file needs none of it)

    connections = Connections()
    url, login, password = connections.login(connection)
    worker = WorkerReader(url, (login, password) if login else None, connections.tls(connection))
    return {name: worker.client_settings(name, "") for name in worker.connectors()}


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("make_topology", __doc__)
    parser.add_argument("file", type=Path, nargs="?", help="mm2.properties, or a resource KafkaMirrorMaker2 as .yaml")
    parser.add_argument(
        "--connect-worker",
        action="append",
        default=[],
        metavar="CONNECTION",
        help="instead of a file: Airflow connection of a Connect cluster whose connectors are read; may be repeated",
    )
    parser.add_argument("--out", type=Path, required=True, help="the topology file to write")
    parser.add_argument(
        "--connections", type=Path, required=True, help="folder for the connections' files, which hold secrets (0600)"
    )
    parser.add_argument(
        "--worker",
        choices=("dedicated", "connect"),
        default="dedicated",
        help="how MirrorMaker 2 is run; determines the names of connectors",
    )
    parser.add_argument(
        "--template",
        help="how your own replication policy class names topics, such as 'replicated-<source>-<topic>'",
    )
    parser.add_argument(
        "--mapping-rules",
        help="ssl.principal.mapping.rules of the brokers, for the principal of MirrorMaker 2's certificate",
    )
    parser.add_argument("--ask-brokers", action="store_true", help="ask the brokers, as MirrorMaker 2, for these rules")
    parser.add_argument("--force", action="store_true", help="overwrite files that exist")
    add_json(parser)
    return parser


def _certificate_principal(rules: str | None, ask: bool, alias: str, java: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the principal of a certificate's subject, and a sentence on what it rests on; None if it is unknown."""
    unknown = "state MirrorMaker 2's principal under `principals.mirror_maker`, else the fence refuses MirrorMaker 2"
    try:
        subject = subject_of_client(java)
    except (OSError, ValueError) as error:
        return None, f"the certificate of MirrorMaker 2 cannot be read ({type(error).__name__}); {unknown}"
    if not subject:
        return None, f"MirrorMaker 2 has no certificate, so that brokers may take it for User:ANONYMOUS; {unknown}"
    told = rules
    if told is None and ask:
        try:
            told = _only(KafkaCluster(alias, for_librdkafka(java).extra).mapping_rules(_ASK_SECONDS))
        except SwitchbackError as error:
            return None, f"the brokers did not tell their ssl.principal.mapping.rules ({error.reason}); {unknown}"
        if told is None:
            return None, f"brokers or listeners have different ssl.principal.mapping.rules; {unknown}"
    try:
        principal = principal_of_subject(subject, told or DEFAULT_RULES)
    except ValueError as error:
        return None, f"{error}; {unknown}"
    if principal is None:
        return None, f"no rule fits the subject {subject}; {unknown}"
    if told is not None:
        return principal, f"MirrorMaker 2's certificate makes it {principal}"
    return principal, (
        f"MirrorMaker 2's certificate makes it {principal} if the brokers have no ssl.principal.mapping.rules; if they"
        " have, add --mapping-rules or --ask-brokers"
    )


def _only(values: frozenset[str]) -> str | None:
    """Return the only value, DEFAULT for none; None if there are several."""
    stated = sorted(value for value in values if value)
    return (stated or [DEFAULT_RULES])[0] if len(stated) < 2 else None


def _files(converted: Converted, out: Path, folder: Path) -> dict[Path, str]:
    head = (
        "# Made from MirrorMaker 2's configuration. Addresses and secrets are in the Airflow connections named here.\n"
    )
    files = {out: head + yaml.safe_dump(converted.topology, sort_keys=False, allow_unicode=False, width=120)}
    for name, connection in converted.connections.items():
        stored = connection | {"extra": json.dumps(connection["extra"])}
        files[folder / f"{name}.json"] = json.dumps({name: stored}, indent=2) + "\n"
    return files


def _refuse_to_overwrite(files: dict[Path, str], force: bool) -> None:
    present = [str(path) for path in files if path.exists()]
    if present and not force:
        raise BadInput(
            "files exist already", ", ".join(present), "remove the files, choose other names, or add --force"
        )


def _write(path: Path, text: str, secret: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if secret else 0o755)
    write_whole(path, text, 0o600 if secret else 0o644)


def _document(converted: Converted, out: Path, connections: list[Path]) -> dict[str, Any]:
    return {
        "topology": str(out),
        "connections": [str(path) for path in connections],
        "connections_to_create": dict(converted.to_make),
        "keys_not_used": dict(converted.ignored),
        "notes": list(converted.notes),
    }


def _report(converted: Converted, out: Path, connections: list[Path]) -> str:
    flows = ", ".join(f"{flow['source']}->{flow['target']}" for flow in converted.topology["flows"])
    return "\n".join(
        [
            f"Wrote {out}: {len(converted.topology['clusters'])} clusters, flows {flows}.",
            "Connections written (they hold secrets; delete the files once imported):",
            *(f"  airflow connections import {path}" for path in connections),
            "Connections to create yourself:",
            *(f"  {name}: {purpose}" for name, purpose in converted.to_make.items()),
            "Keys that were not used:" if converted.ignored else "Every key was used.",
            *(f"  {ascii(key)[1:-1]}: {reason}" for key, reason in converted.ignored.items()),
            "Notes:" if converted.notes else "",
            *(f"  {note}" for note in converted.notes),
        ]
    ).rstrip()


if __name__ == "__main__":
    sys.exit(main())
