"""The lab's base exception; its text is one sentence, with the tail of the log that explains the failure."""

from __future__ import annotations


class LabError(Exception):
    """The lab failed; the text says what was observed and what to do."""
