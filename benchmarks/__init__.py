"""How fast Maestro is beside the limit and its peers, in one run on this machine: `make bench`.

One file per question. Each measures every contender on the same server, interleaved, and reports ratios of medians:
they carry over to other machines, microseconds do not.
"""
