"""Recovery objectives of a flow: what a run achieved, or will achieve, beside them."""
