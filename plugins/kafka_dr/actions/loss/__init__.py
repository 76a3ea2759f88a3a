"""Assess the records that are lost with a source, from what was recorded before the source stopped answering."""
