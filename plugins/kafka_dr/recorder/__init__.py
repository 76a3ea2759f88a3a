"""The flight recorder: samples positions and log ends of each flow while the source lives; runs near the target."""
