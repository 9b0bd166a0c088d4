"""What a client of Spark Connect sees of a log, as one JSON object; a process of its own, because a server is."""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql.dataframe import DataFrame

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def main(path: str) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()  # this starts a server too

    def load(**options: str) -> DataFrame:
        return spark.read.format("flintlog").options(**options).load(path)

    def refused(**options: str) -> str:
        try:
            load(**options).collect()
        except Exception as error:
            return str(error)
        return ""

    def written() -> int:
        target = f"{path}-written"
        rows = load(view="state").select("queue", "key", "payload")
        rows.write.format("flintlog").mode("append").option("dialect", "taskflux").save(target)
        return spark.read.format("flintlog").load(target).count()

    spark.sql(f"CREATE TEMPORARY VIEW log USING flintlog OPTIONS (path '{path}', `from` '3')")
    found = {
        "client": type(spark).__module__,
        "operations": [row.operation for row in load().orderBy("position").collect()],
        "filtered": load(where="position >= 2 AND operation = 'add'").where("position < 9").count(),
        "state": [bytes(row.payload).decode() for row in load(view="state").collect()],
        "sql": [row.operation for row in spark.sql("SELECT operation FROM log").collect()],
        "refused": refused(view="rows"),
        "written": written(),
    }
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
