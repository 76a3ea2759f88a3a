"""What a site offers over HTTP or as files: drain, probe, fence, stop, routing."""
