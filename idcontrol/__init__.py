"""Motor torques for robots in contact: inverse dynamics that predicts its own contact forces."""
