"""The lab's base exception; its text is one sentence, for a process that failed with the last lines of its logs."""

from __future__ import annotations


class LabError(Exception):
    """The lab failed; the text says what was observed and what to do."""
