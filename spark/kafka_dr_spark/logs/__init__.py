"""Two logs of a partition, and the pairs of offsets that join them."""
