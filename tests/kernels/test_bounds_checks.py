"""Under NUMBA_BOUNDSCHECK every index is checked, also those into raw columns, and that code is cached apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import numpy as np
from sash.kernels.jit.cache import sources_key
from sash.kernels.jit.compile import machine_code
from sash.kernels.jit.numba_arrays import column
from sash.kernels.jit.state_layout import Layout

def read_array(values, index):
    return values[index]

def read_column(layout, cells, index):
    return column(layout, cells)[index]

values, layout = np.arange(8.0)[:4], Layout("float")
for kernel, arguments in ((read_array, (values,)), (read_column, (layout, (values,)))):
    code = machine_code(kernel, kernel.__name__, (*arguments, 0))
    assert code(*arguments, 3) == 3.0
    try:
        code(*arguments, 4)
    except IndexError:
        print(kernel.__name__, "is checked")
print(sources_key())
"""


def run(check: str, cache: Path) -> list[str]:
    """What the program prints with bounds checks on ("1") or off ("0")."""
    env = {**os.environ, "NUMBA_BOUNDSCHECK": check, "SASH_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_indices_beyond_arrays_and_raw_columns_raise(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    *checked, key = run("1", tmp_path)
    assert checked == ["read_array is checked", "read_column is checked"]
    *unchecked, other = run("0", tmp_path)
    assert unchecked == []
    assert other != key
