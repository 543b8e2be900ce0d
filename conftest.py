"""What is collected: everything, but the sketches where datasketches has no release for this Python."""

from importlib.util import find_spec

import sash  # noqa: F401 - the package as a whole, before pytest imports its modules one by one

collect_ignore = [] if find_spec("datasketches") else ["src/sash/monoids/sketches.py", "tests/monoids/test_sketches.py"]
