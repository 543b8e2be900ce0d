"""Windows, as plain data and arithmetic. Imports nothing else of sash.

`duration`  lengths of time: "500ms", "1h", timedelta
`kinds`     the windows: Count, Time, Delta, Session, Punctuation, Lifetime, Policy
`slices`    where a stream is cut so that windows of several lengths and slides share partial aggregates
"""

from sash.windows.duration import Duration
from sash.windows.specs import Count, Delta, Lifetime, Policy, Punctuation, Session, Time, WindowKind

__all__ = ["Count", "Delta", "Duration", "Lifetime", "Policy", "Punctuation", "Session", "Time", "WindowKind"]
