"""Without the extra ``viz`` nothing of this folder can be tested."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("viser") else ["test_*.py"]
