"""The flight recorder: samples positions and log ends of each flow while the source runs; runs near the target."""
