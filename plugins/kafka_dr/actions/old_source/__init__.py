"""A source that is lost or that clients left: is it alive, is it fenced, which records did it accept."""
