"""Windows as plain data, and the rules of their bounds. Imports nothing else of sash.

`duration`       lengths of time: "500ms", "1h", "1mo", timedelta
`specs`          the windows: Count, Time, Delta, Session, Punctuation, Lifetime, Policy
`rules`          where a window begins and ends, as numbers: the one definition, which all executors take
`arguments`      checks of their arguments
`calendar`       months and local days, as sizes and as slides; when the clock of a time zone changes
"""

from sash.windows.duration import Duration
from sash.windows.specs import Count, Delta, Lifetime, Policy, Punctuation, Session, Time, WindowKind

__all__ = ["Count", "Delta", "Duration", "Lifetime", "Policy", "Punctuation", "Session", "Time", "WindowKind"]
