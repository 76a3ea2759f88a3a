"""The topology file: how it is read, what is checked, and the reference of its keys."""
