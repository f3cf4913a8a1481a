"""Access to Slurm: settings, commands and the records they return."""
