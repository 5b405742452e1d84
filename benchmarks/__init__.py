"""How fast Maestro is beside the limit and its peers, in one run on this machine: `make bench`.

One file per question, `peers/` for the other products; `row.py`, `report.py` and `plot.py` for what becomes of figures.
Every contender is measured on the same server, interleaved, and figures are ratios of medians: they carry over to other
machines, microseconds do not.
"""
