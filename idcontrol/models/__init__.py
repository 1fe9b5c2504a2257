"""Contact models of plants (forward) and controllers (inverse), one module or package each, and their shared parts.

Every model except `acceleration` is a function ``solve(problem, warm) -> StepSolution`` over a `StepProblem`. A plant
prescribes no velocity. A controller prescribes the joint velocities; the motor impulses are the multipliers of the
prescribed velocities. To add a model, write ``models/<name>.py`` with such a function, based on `whitened.whiten`. Test
that its inverse mode is a right inverse of its forward mode (docs/notes/tests.md).
"""
