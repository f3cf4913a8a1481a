"""Components as Slurm jobs, entitlements as Slurm reservations (docs/slurm.md)."""
