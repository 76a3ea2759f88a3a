"""The journal's PostgreSQL is replaced by one without the newest entries, or changed with full rights on it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.procedure.entries import JournalAccepted, facts_in
from kafka_dr.vocabulary import Entry

from lab.install.setup import NO_POSTGRESQL, postgresql_programs
from tests.faults.processes.journal_servers import JournalServers
from tests.faults.support.scene import Scene, Stage, moved_without_findings
from tests.faults.support.stepping import ROOT, Run, product_environment

pytestmark = pytest.mark.skipif(postgresql_programs() is None, reason=NO_POSTGRESQL)
BACK = "return_to_source"
ACTS = ("fence_producers", BACK, "close_procedure")
#: The fence stands while standbys are promoted, one after the other.
PARAMS = {"max_fence_seconds": 3600.0, "approval_valid_seconds": 3600.0}
#: The journal's n-th write of a step is the intent of what it does to clusters.
INTENTS = {"fence_producers": 3, "open_target": 2}
#: Of entries lost, from one on: more than any step here writes, and no more than a refusal names.
MOST_LOST = 12
NOT_SEEN = "The journal lost entries while this process used it"


class JournalScene(Scene):
    """A lab whose journal is on PostgreSQL."""

    def __init__(self, state: Path, folder: Path) -> None:
        self._running = ExitStack()
        with ExitStack() as begun:
            begun.callback(self._running.close)
            self.servers = JournalServers(folder, self._running)
            super().__init__(state, folder)
            begun.pop_all()
        at = {"conn_type": "generic", "extra": {"url": self.servers.url}}
        self.driver.environment["AIRFLOW_CONN_KAFKA_DR_JOURNAL"] = json.dumps(at)

    def journal(self) -> Any:
        """The journal."""
        return self.servers.journal()

    def close(self) -> None:
        """End everything."""
        super().close()
        self._running.close()

    def command(self, name: str, *arguments: object) -> tuple[int, str]:
        """Run one of the product's commands; return its exit status, and what it said."""
        done = subprocess.run(
            [sys.executable, "-m", f"kafka_dr.commands.{name}", *map(str, arguments)],
            cwd=ROOT, env=product_environment(self.lab) | self.driver.environment, capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def verified(self, run: Run) -> tuple[int, str]:
        """Compare a run's evidence with the journal, and the journal with its anchors."""
        return self.command("verify_evidence", self.lab.evidence / run.procedure_id, "--journal")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The lab of this file."""
    made = Stage(tmp_path_factory.mktemp, JournalScene)
    yield made
    made.close()


# -- a promoted standby --------------------------------------------------------------------------------------------


def not_refused(scene: JournalScene, run: Run, steps: tuple[str, ...], reasons: list[str]) -> list[str]:
    """Run steps under the leading server; return what they did otherwise than refuse and name all of the reasons."""
    rows, world = scene.servers.rows(), scene.world.look()
    found = {step: scene.driver.processes(run, step)[0] for step in steps}
    wrong = [f"{step}: {one}" for step, one in found.items() if one["state"] != "refused"]
    wrong += [f"{step} does not say {text}" for step, one in found.items() for text in reasons if text not in str(one)]
    wrong += ["the journal was written"] if scene.servers.rows() != rows else []
    wrong += ["clusters, connectors or routing record changed"] if scene.world.look() != world else []
    return wrong


def acts_without(scene: JournalScene, run: Run, step: str) -> list[str]:
    """For each number of lost entries: return what a step and the way back did otherwise than refuse and name them."""
    entries, wrong = scene.servers.entries(), []
    for lost in range(1, min(MOST_LOST, scene.servers.losable) + 1):
        missing = [f"entry {e.sequence} ({e.kind} of {e.step}, {e.procedure_id}) is missing" for e in entries[-lost:]]
        began = time.monotonic()
        with scene.servers.promoted_without(lost):
            found = not_refused(scene, run, (step, BACK), missing)
        print(f"{step}, {lost} lost, {time.monotonic() - began:.1f} s: {found or 'refused'}", flush=True)
        wrong += [f"{step}, {lost} lost: {text}" for text in found]
    assert scene.servers.entries() == entries
    return wrong


def acts_around(scene: JournalScene, run: Run, step: str, then: str) -> list[str]:
    """Do a step that changes clusters, with entries lost after its intent and after its outcome; return what acted."""
    frozen = scene.frozen(run, step, freeze_at=INTENTS[step])
    newest = scene.servers.entries()[-1]
    assert (newest.step, newest.kind) == (step, Entry.INTENT)
    wrong = acts_without(scene, run, step)
    world = scene.world.look()
    with scene.servers.promoted_without(1, crash=True):
        rows = scene.servers.rows()
        ended = scene.driver.thaw(frozen)
        wrong += [f"{step} went on: {ended}"] if (ended["state"], NOT_SEEN in str(ended)) != ("refused", True) else []
        wrong += [f"{step} acted, or wrote"] if (scene.world.look(), scene.servers.rows()) != (world, rows) else []
    assert scene.driver.step(run, step) == "done", run.texts
    return wrong + acts_without(scene, run, then)


def test_a_person_accepts_what_is_lost_for_good(scene: JournalScene) -> None:
    """Journal and evidence name the person, the reason, and each act that was lost; the run returns to the source."""
    run = scene.run(**PARAMS)
    assert scene.driver.forward(run, until="fence_producers"), run.texts
    lost = scene.servers.entries()[-1]
    assert (lost.step, lost.kind) == ("fence_producers", Entry.OUTCOME)
    scene.servers.promote_without(1)
    missing = f"entry {lost.sequence} (outcome of fence_producers, {run.procedure_id}) is missing"
    assert not_refused(scene, run, ("drain_consumers", BACK), [missing]) == []
    who = ("--source", "primary", "--target", "standby", "--as", "olga", "--reason", "the former server burnt")
    status, said = scene.command("accept_journal", *who)
    assert status == 0 and missing in said, said
    (accepted,) = facts_in(scene.servers.entries(), JournalAccepted)
    assert (accepted.accepted_by, accepted.reason) == ("olga", "the former server burnt")
    assert [text for text in accepted.lacked if text.startswith(missing)] == list(accepted.lacked)
    evidence = scene.give_back(run)
    (incomplete,) = evidence["problems"]
    assert missing in incomplete and "olga accepted" in incomplete and "the former server burnt" in incomplete
    wrong = [] if evidence["outcome"] == "returned" else [f"{evidence['outcome']}: {evidence['reason_for_outcome']}"]
    wrong += scene.changed() + scene.unusable()
    assert not wrong, "\n".join(wrong)
    assert scene.verified(run)[0] == 0
    assert "nothing to accept" in scene.command("accept_journal", *who)[1]


# -- somebody with full rights on the database ---------------------------------------------------------------------


def forge(scene: JournalScene, run: Run, older: str) -> Iterator[tuple[str, Callable[[], None], str]]:
    """Yield each forgery of the journal: its name, the act, and what must be said of it."""
    entries = scene.servers.entries()
    approval = next(e for e in entries if (e.procedure_id, e.kind) == (run.procedure_id, Entry.APPROVAL))
    named = "entry {0.sequence} ({0.kind} of {0.step}, {0.procedure_id}) is "
    by = named.format(approval) + "another one"
    yield "approval", lambda: scene.servers.rewrite(approval.sequence, lambda told: told | {"by": "olga"}), by
    yield "last entry", scene.servers.delete_last, named.format(entries[-1]) + "missing"
    yield "older copy", lambda: scene.servers.put_back(older), named.format(entries[-1]) + "missing"


def test_what_somebody_with_full_rights_changed_is_named(scene: JournalScene) -> None:
    """An approval with new hashes, the last entry deleted, an older database: no step acts, verify_evidence tells."""
    run = scene.run(**PARAMS)
    assert scene.driver.forward(run, until="forecast"), run.texts
    older = scene.servers.copy_database()
    assert scene.driver.step(run, "approve_failover") == "done", run.texts
    wrong = []
    whole = scene.servers.copy_database()
    for name, act, named in forge(scene, run, older):
        act()
        wrong += [f"{name}: {text}" for text in not_refused(scene, run, ACTS, [named])]
        scene.servers.put_back(whole)
    evidence = scene.give_back(run)
    assert evidence["outcome"] == "refused", evidence["reason_for_outcome"]
    whole = scene.servers.copy_database()
    for name, act, named in forge(scene, run, older):
        act()
        status, said = scene.verified(run)
        print(f"{name}: {said}", flush=True)
        wrong += [] if status == 1 and named in said else [f"{name}: verify_evidence ended with {status}: {said}"]
        scene.servers.put_back(whole)
    assert scene.verified(run)[0] == 0
    assert not wrong, "\n".join(wrong)


# -- the whole way -------------------------------------------------------------------------------------------------


def test_what_a_promoted_standby_lacks_is_named_and_nothing_acts(scene: JournalScene) -> None:
    """Around lease, fence and opening, for each number of entries; with the former server back, the run completes.

    Between them a synchronous standby is promoted while a step runs: this step goes on.
    """
    scene.rehearsal.crashed = False
    scene.servers.keep_copy()
    run = scene.run(**PARAMS)
    assert scene.driver.step(run, "open_procedure") == "done", run.texts
    wrong = acts_without(scene, run, "check_readiness")
    assert scene.driver.forward(run, after="open_procedure", until="approve_failover"), run.texts
    wrong += acts_around(scene, run, "fence_producers", then="drain_consumers")
    promoted = {"freeze_at": 2, "meanwhile": scene.servers.promote}
    until = "seed_reverse_replication"
    assert scene.driver.forward(run, after="fence_producers", until=until, drain_consumers=promoted), run.texts
    wrong += acts_around(scene, run, "open_target", then="redirect_clients")
    evidence = scene.driver.whole(run, after="open_target")
    assert evidence["outcome"] == "completed", evidence["reason_for_outcome"]
    moved_without_findings(scene.rehearsal, evidence)
    assert scene.verified(run)[0] == 0 and scene.journal().verify() is None
    assert not wrong, "\n".join(wrong)
