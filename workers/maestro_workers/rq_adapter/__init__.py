"""All that is RQ's: its worker, job and registries, and what of them is overridden."""
