"""Workers as forks of one process, which holds the environments of the runs they carry out."""
