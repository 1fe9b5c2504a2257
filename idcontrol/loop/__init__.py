"""The fixed-rate loop that joins planner, controller and plant. `simulated` runs it on a clock of its own."""
