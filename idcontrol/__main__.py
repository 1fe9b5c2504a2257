"""``python -m idcontrol`` is the command ``idcontrol``."""

import sys

from idcontrol.cli import main

if __name__ == "__main__":
    sys.exit(main())
