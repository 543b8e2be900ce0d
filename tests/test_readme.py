"""What README.md tells is what the code has: its table of structures, its list of aggregates."""

import re

from tools.readme import README, with_catalogue

from sash.monoids.functions import AGGREGATES


def test_the_table_of_structures_is_the_catalogue() -> None:
    text = README.read_text(encoding="utf-8")
    assert text == with_catalogue(text), "README.md is behind the catalogue: run `make format`"


def test_the_list_of_aggregates_is_complete() -> None:
    section = README.read_text(encoding="utf-8").partition("## The aggregates")[2].partition("\n\nSums")[0]
    assert set(re.findall(r"`(\w+)`", section)) == set(AGGREGATES)
