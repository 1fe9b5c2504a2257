"""Foundations of compiled kernels: arrays for one step, small matrices, bound arguments, Pinocchio's data."""
