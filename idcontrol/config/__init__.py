"""What users name and set: settings, entry points, their own controllers and plants, and child processes."""
