"""The currencies that are known, and how many decimals each has."""

DECIMALS = {"KRW": 0, "USD": 2, "EUR": 2}
