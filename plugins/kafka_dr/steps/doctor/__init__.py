"""Tasks that examine an installation."""
