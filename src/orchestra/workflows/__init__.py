"""The workflows. In each folder: shapes.py (records and prompts), states.py (transition table), flow.py (the steps)."""
