"""Notes in the journal which sample of a flow is the newest, so that removed samples are noticed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kafka_dr.domain.sample_chain import SampleStatement, parse_note
from kafka_dr.errors import SwitchbackError
from kafka_dr.hooks.journal.journal import Journal


def name_in_journal(flow: str) -> str:
    """Return the name under which the recorder of a flow, `source->target`, shows its life in the journal."""
    return f"recorder {flow}"


class JournalNotes:
    """Writes notes in a thread of its own: a journal that is slow, hangs or is away delays no sample.

    Attributes:
        noted: number and digest of the newest sample that the journal noted before this process; None if it has none,
            or has not answered yet.
    """

    def __init__(self, flow: str, open_journal: Callable[[], Journal], seconds: float) -> None:
        """Begin to read the journal's note.

        Args:
            flow: `source->target`.
            open_journal: opens the journal; called again after an error.
            seconds: least time between two notes.
        """
        self.noted: tuple[int, str] | None = None
        self._flow, self._open, self._seconds = flow, open_journal, seconds
        self._newest: SampleStatement | None = None
        self._due = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def note(self, newest: SampleStatement) -> None:
        """Have the newest stored sample noted; of several notes that wait only the last is written."""
        self._newest = newest
        self._due.set()

    def _run(self) -> None:
        journal, failed = None, False
        while True:
            try:
                journal = journal or self._opened()
                self._due.wait()
                self._due.clear()
                # The journal never notes a smaller number: the next sample then continues above the noted one.
                if self._newest and self._newest.last > (self.noted or (0,))[0]:
                    journal.show_life(name_in_journal(self._flow), self._newest.noted)
                if failed:
                    print(f"INFO {self._flow}: the journal notes samples again", flush=True)
                failed = False
            except SwitchbackError as error:
                if not failed:
                    print(f"ERROR {self._flow}: the journal does not note samples: {error}", flush=True)
                failed = True
            time.sleep(self._seconds)

    def _opened(self) -> Journal:
        journal = self._open()
        self.noted = parse_note(journal.last_detail(name_in_journal(self._flow)))
        return journal
