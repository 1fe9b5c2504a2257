"""Settings, entry points, users' controllers and plants, and child processes."""
