"""A driver that runs a batch, or a stream as well, in sessions that each send sash in another way.

`python -m tests.spark.cluster.shipping_driver MASTER FOLDER`: FOLDER/ways.json has the settings by name, with a
`file` to add, and whether there is a stream, too. FOLDER/said.json gets what became of each: results, or the message
of the error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import sash
import sash.spark
from tests.spark.cluster.driver import settings


def main(master: str, where: str) -> None:
    folder = Path(where)
    said: dict[str, Any] = {}
    for name, given in json.loads((folder / "ways.json").read_text()).items():
        file, streams = given.pop("file", None), given.pop("streams", False)
        spark = sash.spark.session(master=master, **settings(folder) | given)
        if file is not None:
            spark.sparkContext.addPyFile(file)
        try:
            said[name] = [batch(spark), stream(spark, folder / name) if streams else None]
        except Exception as error:
            said[name] = str(error)
        spark.stop()
    (folder / "said.json").write_text(json.dumps(said))


def batch(spark: Any) -> tuple[Any, ...]:
    rows = spark.range(20).selectExpr("id % 2 as k", "id as t")
    results = sash.rolling(rows, 3, by="k", on="t", high=sash.max("t"), total=sash.sum("t"))
    return max(tuple(row) for row in results.collect())


def stream(spark: Any, folder: Path) -> int:
    spark.range(20).selectExpr("id % 2 as k", "id as t").write.parquet(str(folder / "in"))
    rows = spark.readStream.schema("k long, t long").parquet(str(folder / "in"))
    results = sash.rolling(rows, 3, by="k", on="t", lateness=0, n=sash.count())
    writer = results.writeStream.format("parquet").option("path", str(folder / "out"))
    writer.option("checkpointLocation", str(folder / "c")).trigger(availableNow=True).start().awaitTermination()
    return spark.read.parquet(str(folder / "out")).count()


if __name__ == "__main__":
    main(*sys.argv[1:])
