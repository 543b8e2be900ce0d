"""What pytest collects: no files for type checkers, and no sketches where datasketches has no release."""

from importlib.util import find_spec

import sash  # noqa: F401 - the package as a whole, before pytest imports its modules one by one

SKETCHES = ["src/sash/monoids/functions.py", "src/sash/monoids/sketches.py", "tests/monoids/test_sketches.py"]

# typing_cases.py is for type checkers: half of its calls are wrong
collect_ignore = ["tests/plan/typing_cases.py", *([] if find_spec("datasketches") else SKETCHES)]
