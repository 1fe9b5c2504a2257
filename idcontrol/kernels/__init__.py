"""What compiled kernels stand on: arrays for one step, bound arguments, views into Pinocchio's data."""
