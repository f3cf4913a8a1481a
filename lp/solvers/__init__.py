"""One back-end per file, from `ModelArrays` to `Solution`; solvers are imported only here."""
