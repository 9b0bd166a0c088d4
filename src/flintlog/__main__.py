"""`python -m flintlog` is the command `flintlog`."""

import sys

from flintlog.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
