"""Contact models, one file each, shared by plants (forward) and controllers (inverse).

Every model is a function ``solve(problem, warm) -> StepSolution`` over a `StepProblem`. A plant prescribes no velocity.
A controller prescribes the joint velocities; the multipliers of these conditions are the motor impulses. To add a
model, write ``models/<name>.py`` with such a function, based on `whitened.whiten`, and test that its inverse is a right
inverse of its forward mode (docs/notes/tests.md).
"""
