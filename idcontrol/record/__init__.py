"""The folder that a run leaves on disk (`recording`), its rows (`channels`), and metrics of its arrays (`metrics`)."""
