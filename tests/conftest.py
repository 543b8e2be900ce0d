"""Hypothesis profiles: `quick` for `make test`, the same examples each time; `thorough` for `make test-all`."""

import os

from hypothesis import HealthCheck, settings

# No deadline and no health check on speed: a first call may compile, and the machine may be busy.
settings.register_profile(
    "quick", deadline=None, max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("quick"), derandomize=False, max_examples=400)
settings.load_profile(os.environ.get("SASH_HYPOTHESIS", "quick"))
