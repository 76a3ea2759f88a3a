"""Bring the logs of a returned cluster up to date."""
