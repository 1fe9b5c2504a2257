"""Foundations of compiled kernels: compilation, cache, calls, arrays of a step, small matrices, views of placements."""
