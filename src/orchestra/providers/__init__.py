"""Providers: request in, response out, nothing else (S1 §3). `calling.py` is everything around a call."""
