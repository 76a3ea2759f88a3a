"""Commands for a person with a shell."""
