"""What users name and set: settings of runs, entry points of packages, their own controllers and plants."""
