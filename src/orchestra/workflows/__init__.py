"""Ways of working. Each folder reads: shapes.py (what is said), states.py (what may happen), flow.py (what happens)."""
