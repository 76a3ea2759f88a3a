"""Notices to people: which are due by the journal, and what they say."""
