"""Contact models, one file each, shared by plants (forward) and controllers (inverse).

Every model is a function ``solve(problem, warm) -> StepSolution`` over a `StepProblem`. With no velocity prescribed it
is a plant; with the joints prescribed it is a controller, and the multipliers of the prescribed velocities are the
motor impulses. To add a model: write ``models/<name>.py`` with such a function, based on `whitened.whiten`, and test
that its inverse is a right inverse of its forward mode (math.md, section 16).
"""
