"""Reads what doctor examines, and changes nothing."""
