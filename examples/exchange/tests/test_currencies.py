import unittest

from money.currencies import DECIMALS


class Currencies(unittest.TestCase):
    def test_a_won_has_no_cents(self) -> None:
        self.assertEqual(DECIMALS["KRW"], 0)
