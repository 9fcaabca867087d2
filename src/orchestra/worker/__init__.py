"""The worker: the one door to processes (D-09). Read in the order task, wrap, launcher, spawner, usage, capture."""
