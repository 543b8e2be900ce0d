"""spark-submit of a job file to the cluster: the same rows as on the local host, with the settings of spark-submit."""

import json
import subprocess
from pathlib import Path

import pyarrow.parquet as pq

import sash
from sash.testing import assert_same
from tests.shared.queries import loose
from tests.spark.cases import in_one_order, rows
from tests.spark.cluster.driver import settings
from tests.spark.cluster.standalone import HOME, StandaloneCluster, environment

JOB = """
import json
import sys

import sash
import sash.spark

spark = sash.spark.session()
folder = sys.argv[1]
trades = spark.read.parquet(folder + "/in.parquet")
hour = sash.rolling(
    trades, {"time": sash.Time(4), "life": sash.Lifetime()}, by="k", on=["t", "row"],
    n=sash.count("f"), total=sash.sum("i"), high=sash.max("f"),
)
hour.write.parquet(folder + "/out")
names = ("spark.sql.session.timeZone", "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.shuffle.partitions")
said = {name: spark.conf.get(name) for name in names} | {"master": spark.sparkContext.master}
open(folder + "/said.json", "w").write(json.dumps(said))
"""


def test_a_submitted_job_gives_the_rows_of_the_local_host(cluster: StandaloneCluster, tmp_path: Path) -> None:
    query = sash.Query(
        {"time": sash.Time(4), "life": sash.Lifetime()},
        by="k",
        on=["t", "row"],
        n=sash.count("f"),
        total=sash.sum("i"),
        high=sash.max("f"),
    )
    table = rows().select([name for name in rows().schema.names if name != "u"])  # Parquet has no durations
    expected = query.run(table)
    pq.write_table(table, tmp_path / "in.parquet")
    (tmp_path / "job.py").write_text(JOB)
    given = settings(tmp_path) | {"sql.execution.arrow.maxRecordsPerBatch": 77}
    command = [str(HOME / "bin" / "spark-submit"), "--master", cluster.url, "--deploy-mode", "client"]
    for name, value in given.items():
        command += ["--conf", f"spark.{name}={str(value).lower() if isinstance(value, bool) else value}"]
    command += [str(tmp_path / "job.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    got = pq.read_table(tmp_path / "out").cast(expected.schema)  # Spark writes timestamps to Parquet in nanoseconds
    assert_same(in_one_order(got, query), in_one_order(expected, query), loose=loose(query))
    assert json.loads((tmp_path / "said.json").read_text()) == {
        "master": cluster.url,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "77",  # that of spark-submit, not ours
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
    }
