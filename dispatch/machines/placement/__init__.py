"""Which machine takes a job: LoTES by table, first fit, Tetris, best fit, spread."""
