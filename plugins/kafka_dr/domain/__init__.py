"""Pure rules: no clock, no I/O; every result follows from the arguments."""
