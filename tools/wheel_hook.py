"""Hatchling's build hook of `make wheel`: puts the compiled kernels into the wheel, and names its platform.

It runs only if HATCH_BUILD_HOOK_ENABLE_CUSTOM is set: all other builds are pure Python.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = "build/kernels"


class KernelsHook(BuildHookInterface):  # type: ignore[misc]
    """Adds the kernels that `tools.package_kernels` has compiled."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Machine code is for one platform, and for one version of Python."""
        if version == "editable":
            return
        if not Path(self.root, KERNELS, "manifest.json").exists():
            raise FileNotFoundError(f"{KERNELS} has no kernels: run `make wheel`")
        build_data["force_include"][str(Path(self.root, KERNELS))] = "sash/kernels/compiled"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
