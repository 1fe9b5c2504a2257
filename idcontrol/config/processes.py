"""Child processes that run a module of the same idcontrol as their parent.

``python -m`` searches the working directory first. In a folder with another package ``idcontrol``, such as a second
clone, a child would run other code than its parent. So a child is started by the path of this file, imports the package
of this file, and excludes the working directory from the module path (``-P``).
"""

import importlib.util
import os
import runpy
import sys


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `module`, e.g. ``"idcontrol.cli.child"``, in a new Python with these arguments."""
    return [sys.executable, "-P", os.path.abspath(__file__), module, *arguments]


def _main() -> None:
    package = os.path.join(os.path.dirname(os.path.dirname(__file__)), "__init__.py")
    spec = importlib.util.spec_from_file_location("idcontrol", package)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["idcontrol"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["idcontrol"])
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
