"""Taking a run's changes back."""
