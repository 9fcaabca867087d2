"""S1, the patch loop: plan → patch → approval → apply → checks → fix or ask, until it passes."""
