"""Evidence of a procedure, its status while it runs, and the charts of both."""
