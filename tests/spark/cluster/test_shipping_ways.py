"""The ways by which sash reaches executors: a packed environment, a wheel, and not at all."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.spark.cluster.environments import packed, wheel, without_sash
from tests.spark.cluster.standalone import StandaloneCluster, environment


def test_sash_reaches_executors(cluster: StandaloneCluster, tmp_path: Path) -> None:
    bare = without_sash(tmp_path / "bare")
    archive = packed(tmp_path / "whole", tmp_path / "whole.tar.gz")
    ways: dict[str, dict[str, Any]] = {
        "nothing": {"pyspark.python": str(bare)},
        "wheel": {"pyspark.python": str(bare), "file": str(wheel(tmp_path / "dist"))},
        "archive": {
            "pyspark.python": "./environment/bin/python",
            "archives": f"{archive}#environment",
            "streams": True,
        },
    }
    (tmp_path / "ways.json").write_text(json.dumps(ways))
    # the driver of a stream starts a Python worker, too, and by the same path
    (tmp_path / "environment").symlink_to(tmp_path / "whole")
    command = [sys.executable, "-m", "tests.spark.cluster.shipping_driver", cluster.url, str(tmp_path)]
    surroundings = environment() | {"PYTHONPATH": str(Path.cwd())}
    surroundings["SASH_CACHE_DIR"] = str(tmp_path / "cache")
    done = subprocess.run(
        command, env=surroundings, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=1200
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads((tmp_path / "said.json").read_text())
    # the last window has 15, 17 and 19; in the stream all rows are final but the one at the last time
    assert said["archive"] == [[1, 19, 19, 51], 19]
    assert said["wheel"] == [[1, 19, 19, 51], None]
    found = re.search(
        r"the executor on \S+ \(Python: (.*?)\) does not have sash: install sash\[spark\]", said["nothing"]
    )
    assert found is not None, said["nothing"]
    assert found[1] == str(bare)
