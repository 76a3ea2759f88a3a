"""Assess the loss."""
