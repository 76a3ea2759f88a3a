"""A site's services over HTTP, and its routing file: drain, probe, fence, stop, routing."""
