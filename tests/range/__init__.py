"""The range: hostile programs in the real sandbox, aimed at canaries that the range makes.

cases.py is the table; place.py makes the canaries; inside.py is the program that makes the attempts; drive.py does it
for one category as whoever runs it. Nothing aims at another address than loopback, or at a file the range did not make.
"""
