"""Providers: request in, response out, nothing else (S1 §3). `calling.py` does everything around a call."""
