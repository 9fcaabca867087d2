"""The durable core: everything a run needs to be killed at any instant and go on."""
