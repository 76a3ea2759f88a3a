"""The steps of the procedures, and what they share."""
