"""What any long program needs: child processes, signals that end it, progress."""
