"""Writing a run's result as a commit."""
