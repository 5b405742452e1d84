"""What runs beside the terminals: the embedded stack, RQ workers, the sweeper."""
