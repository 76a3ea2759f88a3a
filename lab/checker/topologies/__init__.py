"""Checks of clusters that several flows join."""
