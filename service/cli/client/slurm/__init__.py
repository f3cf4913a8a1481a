"""Commands beside those of a Slurm that a server works with."""
