"""One outside system each: what it is asked, what it answers, what it refuses."""
