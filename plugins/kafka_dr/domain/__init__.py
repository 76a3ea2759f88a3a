"""Pure rules: no clock, no I/O; what is decided follows from what is given."""
