"""Choice of a machine for a job: LoTES by table, first fit, Tetris, best fit, spread."""
