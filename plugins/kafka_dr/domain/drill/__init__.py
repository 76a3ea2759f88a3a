"""Drills: their own names and scope, their verdict, findings and report."""
