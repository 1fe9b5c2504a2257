"""Foundations of compiled kernels: compilation, cache and calls, arrays of a step, small matrices, Pinocchio's data."""
