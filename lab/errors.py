"""Base exception of the lab; its text is a sentence and, after a process has ended, the last lines of its logs."""

from __future__ import annotations


class LabError(Exception):
    """Raised by the lab's functions; the text says what was observed and, if the code knows it, what to do."""
