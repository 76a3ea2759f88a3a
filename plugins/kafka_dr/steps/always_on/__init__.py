"""Tasks that never end: the flight recorder and the watcher of old sources."""
