"""The command line for `spark-submit`: it works on the session that spark-submit has begun.

    spark-submit --master spark://host:7077 --py-files flintlog.zip submit.py compact DIR

`flintlog.pipeline.session.write_package` makes the zip; submit this file from where it is installed.
"""

from __future__ import annotations

import sys

from flintlog.cli.main import main

if __name__ == "__main__":
    sys.exit(main([*sys.argv[1:], "--engine", "spark"]))
