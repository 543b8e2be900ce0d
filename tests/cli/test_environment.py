"""What `sash info` reports about missing packages."""

from __future__ import annotations

import re

from sash.cli.environment import as_text, environment


def test_what_is_missing_has_the_command_that_installs_it() -> None:
    found = environment() | {"extras": {"stores": {"rocksdict": "0.3", "valkey": None}}, "kernel_cache": None}
    text = as_text(found)
    assert "rocksdict 0.3, valkey missing   (pip install 'sash[stores]')" in text
    assert "each process compiles its kernels again" in text


def test_the_extras_are_those_of_the_package() -> None:
    from importlib import metadata

    from sash.cli.environment import EXTRAS, PACKAGES

    requirements = metadata.requires("sash") or []
    for extra, names in EXTRAS.items():
        for name in names:
            assert any(one.startswith(name) and f"extra == '{extra}'" in one for one in requirements), (extra, name)
    assert {re.split("[<>=]", one)[0] for one in requirements if ";" not in one} == {*PACKAGES}
