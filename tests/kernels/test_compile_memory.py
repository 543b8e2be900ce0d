"""What stays in memory of a compiled kernel: counted objects of LLVM and Numba, in a process with an empty cache."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import gc, json
import numpy as np
from llvmlite.binding import ModuleRef
from numba.core import ir
from numba.core.codegen import JITCPUCodegen
import sash
from sash.aggregators import Recalc
from sash.kernels import slide
from sash.kernels.jit.compile import compiled_kernels

made, passes = [], JITCPUCodegen._function_pass_manager
JITCPUCodegen._function_pass_manager = lambda codegen, *of: made.append(1) or passes(codegen, *of)

def run(power):
    total = sash.monoid(identity=0.0, lift=lambda x: x * power, combine=lambda a, b: a + b, lower=lambda a: a + 1)
    results = slide(Recalc, total, (np.arange(4.0),), 2)
    assert results.to_list() == [1.0, power + 1.0, 3.0 * power + 1, 5.0 * power + 1]
    gc.collect()
    objects = gc.get_objects()
    alive = [sum(isinstance(one, kind) for one in objects) for kind in (ModuleRef, ir.Expr)]
    return [len(compiled_kernels), *alive, len(made)]

shares_passes = hasattr(JITCPUCodegen, "_pass_builder")  # not in Numba 0.61
print(json.dumps([run(power)[: 4 if shares_passes else 3] for power in (2.0, 3.0, 5.0)]))
"""


def counted(caches: Path) -> list[list[int]]:
    """After each of three kernels: how many were compiled, modules of LLVM, expressions of Numba, function passes."""
    environment = os.environ | {"SASH_CACHE_DIR": str(caches)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[list[int]] = json.loads(done.stdout)
    return found


def test_a_compiled_kernel_keeps_one_module_and_no_typed_code(tmp_path: Path) -> None:
    first, second, third = counted(tmp_path)
    assert second[0] - first[0] == third[0] - second[0] == 1
    assert [b - a for a, b in zip(second, third, strict=True)] == [1, 1, 0, 0][: len(third)]

    loaded = counted(tmp_path)
    assert [one[0] for one in loaded] == [0, 0, 0]
    assert [b[1] - a[1] for a, b in itertools.pairwise(loaded)] == [1, 1]
