"""Workflows that people write themselves, as Python functions (docs/library.md)."""
