"""Observe and fence a source that is lost or that clients left, and list the records that this source accepted."""
