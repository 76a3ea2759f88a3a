"""What the lab raises: one class, one sentence, with the tail of the log that explains it."""

from __future__ import annotations


class LabError(Exception):
    """The lab could not do what was asked; the text says what was seen and what to do."""
