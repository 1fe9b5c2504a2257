"""Pure numerics on small dense arrays: linear complementarity problems, quadratic programs, rank. No robotics here.

Every solver is a compiled kernel, which takes its arrays from an arena (`idcontrol.kernels.arena`) and may be called
by other kernels, and a thin Python function that checks shapes, calls it and returns a frozen result with a
`SolverStatus` and a checked residual. Nothing raises on a hard problem: a problem without a solution is an outcome,
with a certificate.

To add one: write `name.py` with `name_kernel`, which answers with a NamedTuple, and a function that returns a result
with `status` and `residual`; call nothing solved whose residual was not computed; test it against an oracle that shares
no code with it. No fast-math: results must not depend on how a compiler reorders sums, and a NaN must stay visible.
Numba's cache watches the file of a kernel, not those of the kernels that it calls: after editing one that others call,
delete `__pycache__`.
"""
