"""Numerics on small arrays: linear complementarity problems, quadratic programs, rank, Cholesky factors.

Only `enumerate`, `modes` and `interior_point.pyramid_start` are about contacts; all else has no robotics.

Most solvers are a compiled kernel and a thin Python function. The kernel takes its arrays from an arena
(`idcontrol.kernels.arena`) and may be called by other kernels; the function checks shapes, calls the kernel and returns
a frozen result with a `SolverStatus` and a checked residual. No solver raises an exception on a hard problem: the
status reports the failure.

To add a solver: write `name.py` with `name_kernel`, which returns a NamedTuple, and a function that returns a result
with `status` and `residual`. Compute the residual before calling an answer solved. Test it against an oracle that
shares no code with it. No fast-math: results must not depend on how a compiler reorders sums, and a NaN must stay
visible. A kernel is compiled again after an edit of any file that it imports (`idcontrol.kernels.sources`).
"""
