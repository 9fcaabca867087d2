"""Which files of a workspace a model gets to see."""
