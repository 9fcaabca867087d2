"""Find, summarise, answer, adopt, verify and remove runs."""
