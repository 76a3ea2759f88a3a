"""Prints what a procedure will do, or the procedure's remaining steps as commands for a person with a shell.

    python -m kafka_dr.commands.plan PROCEDURE_ID
    python -m kafka_dr.commands.plan --source ALIAS --target ALIAS --commands [--out FOLDER]

Reads the journal and the procedure's files. `--commands` writes into a folder the scripts `to_go_on.sh` (the remaining
steps) and `to_return.sh` (the rollback to the source), with the files that the scripts need, and prints both. After
translate_offsets and before commit_groups the command also reads positions and topics of the target; if the target does
not answer, `to_go_on.sh` ends before the commit. Kafka's tools read `source.properties` and `target.properties` in that
folder: write both files yourself.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from kafka_dr.actions.loss_changes import loss_beyond_approval
from kafka_dr.actions.offsets.client_topics import missing_topics
from kafka_dr.actions.offsets.commit import positions_to_commit
from kafka_dr.actions.replication.stop import parts_of
from kafka_dr.actions.scope.flow_scope import remote_partitions
from kafka_dr.actions.scope.plan_scope import (
    boundary_of,
    cut_off_of,
    ends_left,
    groups_of,
    partitions_of_plan,
    topics_of,
)
from kafka_dr.actions.scope.position_frames import COLUMNS
from kafka_dr.commands.command_line import add_json, command_parser, print_json
from kafka_dr.commands.manual_actions import MANUAL_ACTIONS, record_manual_action
from kafka_dr.commands.manual_routing import address_and_login, routing_command, routing_files
from kafka_dr.commands.without_airflow.shown_plan import (
    changes_flow,
    plan_document,
    plan_text,
    planning_step,
    steps_begun,
)
from kafka_dr.config.topology import Flow
from kafka_dr.domain.kafka_model.acl import AclChange
from kafka_dr.domain.manual.acl_commands import planned_change
from kafka_dr.domain.manual.commands import forward_commands
from kafka_dr.domain.manual.context import ConnectorCommands as ManualFlow
from kafka_dr.domain.manual.context import ManualContext, ToolAccess
from kafka_dr.domain.manual.files import Seeds, offset_lines, partition_patterns, position_files, seed_files
from kafka_dr.domain.manual.rollback import rollback_commands
from kafka_dr.domain.manual.script import shell_script
from kafka_dr.errors import BadInput, Refusal, SwitchbackError
from kafka_dr.hooks.private_files import private_file, private_folder
from kafka_dr.procedure.entries import OffsetsTranslated
from kafka_dr.procedure.find import procedure_holding, reopened_run
from kafka_dr.procedure.run import Run
from kafka_dr.procedure.standing_fence import FENCING, OPENING, hook_fence_stands, own_denials
from kafka_dr.procedure.undo import CloseTarget, LiftFenceHook, RemoveFence, ResumeReplication, left_to_undo
from kafka_dr.procedures import steps_of
from kafka_dr.vocabulary import Entry, Step

_PLACEHOLDER = {"source": "SOURCE_HOST:9092", "target": "TARGET_HOST:9092"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if it printed its text or recorded the manual action, 2 after an error."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.json and (options.commands or options.by_hand):
        parser.error("--json prints the plan, so that --commands and --by-hand exclude it")
    # With this value Airflow reads connections as a server does, not from its API as a task does.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    try:
        procedure = _procedure(options)
        if options.by_hand:
            print(record_manual_action(procedure, hand_of(procedure), options.by_hand, options.user or ""))
        elif options.commands:
            print(write_commands(procedure, options.out or Path(f"{procedure.id}-by-hand")))
        elif options.json:
            print_json(plan_document(procedure))
        else:
            print(plan_text(procedure))
    except SwitchbackError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("plan", __doc__)
    parser.add_argument("procedure_id", nargs="?", help="the name of the evidence folder of the procedure")
    parser.add_argument(
        "--source", help="with --target: select the procedure that holds this pair of clusters, or that held it last"
    )
    parser.add_argument("--target")
    parser.add_argument(
        "--commands", action="store_true", help="print the rest of the procedure, and the return, as commands"
    )
    parser.add_argument(
        "--out", type=Path, help="folder for the commands and their files; by default PROCEDURE_ID-by-hand"
    )
    parser.add_argument(
        "--by-hand",
        choices=MANUAL_ACTIONS,
        help="record in the journal that you open the target, have opened the target, or return to the source",
    )
    parser.add_argument("--as", dest="user", help="with --by-hand: your name")
    add_json(parser)
    return parser


def _procedure(options: argparse.Namespace) -> Run:
    if options.source and options.target:
        return procedure_holding(options.source, options.target)
    if not options.procedure_id:
        raise BadInput("No procedure is named", "", "Give a procedure id, or --source and --target.")
    return reopened_run(options.procedure_id)


def write_commands(procedure: Run, folder: Path) -> str:
    """Write `to_go_on.sh`, `to_return.sh` and the files that these scripts read to a folder; return what to print."""
    hand = hand_of(procedure)
    private_folder(folder)
    title = f"{procedure.id}: {procedure.request.source} -> {procedure.request.target}"
    texts = {
        **_files(procedure, hand),
        "to_go_on.sh": shell_script(f"{title}: CONTINUE TO THE TARGET", forward_commands(hand)),
        "to_return.sh": shell_script(f"{title}: RETURN TO THE SOURCE", rollback_commands(hand)),
    }
    for name, text in texts.items():
        private_file(folder / name).write_text(text, encoding="utf-8")
    written = (
        f"# Written to {folder}: {', '.join(sorted(texts))}\n# Put source.properties and target.properties (an"
        " administrator's login, for Kafka's tools) into this folder, and set CONNECT_USER=name:password for curl;"
        " for HTTPS with a private CA also CURL_CA_BUNDLE=the file that `verify` names in the Airflow connection.\n"
    )
    return "\n".join([written, texts["to_go_on.sh"], texts["to_return.sh"]])


def hand_of(procedure: Run) -> ManualContext:
    """Return the data from which shell commands are made, read from the journal and the procedure's files.

    Raises:
        Refusal: the procedure has no plan yet, or changes a flow.
    """
    if changes_flow(procedure):
        raise _refusal_of_changed_flow(procedure)
    done, begun = steps_begun(procedure)
    planning, given_up = planning_step(procedure), procedure.progress.without_source
    if planning not in done:
        raise Refusal(
            "There is no plan yet",
            f"{planning.value} is not done; no client was moved",
            f"No command is needed to return. To move clients, run the procedure in Airflow or with run_procedure until"
            f" {planning.value} is done, then print these commands.",
        )
    plan, topology, reverse = procedure.progress.move().planned, procedure.topology, procedure.reverse_flow
    # By the intents, and as if this procedure continued no other procedure: a person undoes every act that was begun.
    intents, parts = procedure.progress.entries(Entry.INTENT), parts_of(procedure.flow)
    undo = left_to_undo(
        intents, procedure.request.source, parts, only_asked=given_up and not procedure.progress.continues
    )
    notes = _notes(procedure, done)
    try:
        positions, local = _positions(procedure, done), _missing_topics(procedure, done)
    except Exception as error:  # noqa: BLE001 (the rollback is printed without positions)
        positions, local = None, ()
        notes[Step.COMMIT_GROUPS] = (
            f"The positions could not be read. Mend the cause, then print these commands again. Cause: {error}"
        )
    hook = address_and_login(procedure, topology.fence_hook.connection)[0] if topology.fence_hook else ""
    planned_hook = hook if topology.fence_hook and topology.fence_hook.spares_mirror_maker and not given_up else ""
    fences, openings = map(procedure.journal.entries_of_steps, (FENCING, OPENING))
    return ManualContext(
        procedure_id=procedure.id,
        dag_id=procedure.identity.dag_id,
        source=_tool_access(procedure, "source", procedure.request.source),
        target=_tool_access(procedure, "target", procedure.request.target),
        flow=_connector_commands(procedure, procedure.flow, given_up),
        reverse=_connector_commands(procedure, reverse, given_up) if reverse is not None else None,
        done=done,
        begun_steps=begun,
        fence=AclChange() if given_up else planned_change(plan.fence, plan.fence_removes),
        opening=planned_change([*plan.opening_adds, *plan.denials], plan.opening),
        fence_made=next((act.fence for act in undo if isinstance(act, RemoveFence)), AclChange()),
        opening_made=next((act.opening for act in undo if isinstance(act, CloseTarget)), AclChange()),
        stopped=tuple(name for act in undo if isinstance(act, ResumeReplication) for name in act.names),
        positions=positions,
        local_topics=local,
        seeds=None if given_up else _seeds(procedure, done, notes),
        routing=routing_command(procedure),
        drain=address_and_login(procedure, topology.drain.connection)[0] if topology.drain else "",
        mark=f'python -m kafka_dr.commands.plan {quote(procedure.id)} --as "${{USER:-somebody}}" --by-hand',
        start_reverse=procedure.request.start_reverse_replication,
        loops=topology.naming.policy != "default",
        notes=notes,
        fence_hook=hook if planned_hook or any(isinstance(act, LiftFenceHook) for act in undo) else "",
        planned_hook=planned_hook,
        hook_fences_target=bool(planned_hook) and hook_fence_stands(fences, procedure.request.target),
        writer_denials=AclChange(removes=own_denials(openings, procedure.request.source)),
    )


def _refusal_of_changed_flow(procedure: Run) -> Refusal:
    begun = steps_begun(procedure)[1]
    steps = [step.value for step in steps_of(procedure.identity.dag_id) if step in begun]
    worker = f"python -m kafka_dr.commands.run_procedure --resume {quote(procedure.id)}"
    return Refusal(
        "A changed flow has no commands",
        f"shell commands cannot compare records, so they cannot tell which offset is right; begun: {', '.join(steps)}",
        f"Clients stay where they are. Continue the run with `{worker}`, or take the change back with"
        " `run_procedure abort_procedure`. Only if neither can be run, and the target must not lag any longer:"
        " PUT /connectors/NAME/config with the settings that `former` lists in the run's plan-....json, then"
        " PUT /connectors/NAME/resume: some records are copied again.",
    )


def _tool_access(procedure: Run, end: str, alias: str) -> ToolAccess:
    """Return how Kafka's tools reach a cluster: its bootstrap servers, and the file with the login.

    If the cluster's Airflow connection cannot be read, a placeholder such as `SOURCE_HOST:9092` stands for the servers.

    Args:
        end: `source` or `target`; the file with the login is `<end>.properties`.
    """
    try:
        servers = str(
            procedure.systems.connections.kafka(procedure.topology.cluster(alias).connection)["bootstrap.servers"]
        )
    except Exception:  # noqa: BLE001 (a plan without an address is better than none)
        servers = _PLACEHOLDER[end]
    return ToolAccess(alias, servers, f"{end}.properties")


def _connector_commands(procedure: Run, flow: Flow, given_up: bool) -> ManualFlow | None:
    """Return address and login of the flow's Connect worker, and the names of the flow's connectors.

    None for a flow in dedicated mode whose source is declared lost: there is no worker to send commands to.

    Args:
        given_up: whether the source is declared lost.

    Raises:
        BadInput: the flow runs in dedicated mode and the source is not declared lost; no commands are printed then.
    """
    if given_up and flow.connect is None:
        return None
    url, login = address_and_login(procedure, flow.worker)
    named = flow.connectors
    other = address_and_login(procedure, named.checkpoint.connect) if named.checkpoint.connect else None
    return ManualFlow(url, login, flow.source, named.source, named.checkpoint.name, other)


def _positions(procedure: Run, done: frozenset[str]) -> tuple[tuple[str, str, int, int], ...] | None:
    """Return the positions that commit_groups will commit, as rows: group, target topic, partition, position.

    () if commit_groups is done; None if translate_offsets is not done.
    """
    if Step.COMMIT_GROUPS in done:
        return ()
    if Step.TRANSLATE_OFFSETS not in done:
        return None
    rows = positions_to_commit(procedure)
    return tuple(zip(*(rows[name].tolist() for name in COLUMNS), strict=True))


def _missing_topics(procedure: Run, done: frozenset[str]) -> tuple[tuple[str, int], ...]:
    """Return topics that commit_groups would create on the target, each with its number of partitions.

    () before stop_mirror_maker and after commit_groups.
    """
    if Step.COMMIT_GROUPS in done or Step.STOP_MIRROR_MAKER not in done:
        return ()
    return tuple(missing_topics(procedure).items())


def _seeds(procedure: Run, done: frozenset[str], notes: dict[str, str]) -> Seeds | None:
    """Return the last replicated offsets to seed in the reverse flow; None if stop_mirror_maker is not done.

    For partitions of clients' topics: the target's log end before clients write there, minus 1; None for 0. If Connect
    does not state which of several connectors mirrors a topic, {} is returned, and `notes` gets the reason.
    """
    reverse = procedure.reverse_flow
    if Step.STOP_MIRROR_MAKER not in done or reverse is None:
        return None
    written = set(topics_of(procedure))
    seeds = {tp: end - 1 if end > 0 else None for tp, end in ends_left(procedure).items() if tp.topic in written}
    try:
        return procedure.systems.flow_connectors(reverse).shares_of(seeds)
    except SwitchbackError as error:
        notes[Step.SEED_REVERSE_REPLICATION] = f"Mend this cause, then print these commands again: {error}"
        return {}


def _notes(procedure: Run, done: frozenset[str]) -> dict[str, str]:
    notes: dict[str, str] = {}
    if Step.TRANSLATE_OFFSETS in done and Step.REVIEW_TRANSLATION not in done:
        figures = procedure.progress.require(OffsetsTranslated)
        loss_lines = [
            f"More is lost of {increase.topic}-{increase.partition} than was approved: {increase.why}."
            for increase in loss_beyond_approval(procedure)
        ]
        notes[Step.REVIEW_TRANSLATION] = " ".join(
            [
                (
                    f"{figures.exact} of {figures.positions} positions are exact. All other positions may cause"
                    " re-reads; positions of the classes POLICY and REFUSED may also cause skipped records."
                ),
                *loss_lines,
            ]
        )
    if procedure.topology.naming.policy != "identity" and Step.COMMIT_GROUPS not in done:
        notes[Step.SEED_REVERSE_REPLICATION] = (
            "commit_groups creates the topics that clients will write to. Create these topics with the settings of the"
            " source's topics, and seed each partition with its log end minus one."
        )
    return notes


def _files(procedure: Run, hand: ManualContext) -> dict[str, str]:
    remote = remote_partitions(procedure, partitions := partitions_of_plan(procedure))
    texts = {
        "groups.txt": "".join(f"{group}\n" for group in groups_of(procedure)),
        **({} if hand.given_up else {"source_partitions.txt": partition_patterns(partitions)}),
        "target_partitions.txt": partition_patterns(remote.values()),
        **routing_files(procedure, hand),
        **{name: text for name, _, text in position_files(hand.positions or ())},
    }
    for step, name, ends in (
        (Step.FENCE_PRODUCERS, "cut_off", cut_off_of),
        (Step.STOP_MIRROR_MAKER, "boundary", boundary_of),
    ):
        if step in hand.done:
            texts[f"{name}.txt"] = offset_lines(ends(procedure))
    if hand.reverse is not None and hand.seeds:
        texts |= {name: text for name, _, text in seed_files(hand.reverse.alias, hand.seeds)}
    return texts


if __name__ == "__main__":
    sys.exit(main())
