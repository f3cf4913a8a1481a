"""One back-end a file: `ModelArrays` in, `Solution` out. Only here are solvers imported."""
