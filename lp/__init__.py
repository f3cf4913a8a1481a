"""Linear models and the one door to a solver.

`model.LinearModel` collects variable blocks and sparse rows; `solver.solve` hands the whole
model to a back-end at once and returns a `result.Solution` in this package's own words.
"""
