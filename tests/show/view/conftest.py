"""Skips this folder where the extra ``viz`` is not installed."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("viser") else ["test_*.py"]
