"""Linear models and the interface through which all solvers are called.

`model.LinearModel` collects variable blocks and sparse rows; `solver.solve` passes the whole model
to a back-end in one call and returns a `result.Solution`, which does not depend on the solver.
"""
