"""The algebra of aggregates: the classes. Functions such as `sash.max("price")` bind one to columns."""

from sash.monoids.algebra import Bound, Monoid
from sash.monoids.by_place import M4, Delta, First, Lag, Last, LongestRun, Nth, PctChange
from sash.monoids.collect import Collect, CollectDistinct, Concat
from sash.monoids.custom import monoid
from sash.monoids.direct_product import DirectProduct
from sash.monoids.ewm import EwmMean, EwmStd, EwmVar
from sash.monoids.extremes import ArgMax, ArgMin, Max, MaxCount, Min, MinCount, Range
from sash.monoids.logic import All, Any, BitAnd, BitOr, BitXor
from sash.monoids.moments import Kurtosis, Skewness, Std, Var
from sash.monoids.product import GeometricMean, Product
from sash.monoids.rank_statistics import CountDistinct, Median, Mode, PercentRank, Quantile, Rank
from sash.monoids.regression import Correlation, Covariance, Intercept, Slope, WeightedMean
from sash.monoids.sketches import ApproxDistinct, ApproxQuantile, Bloom, CountMin, FrequentItems
from sash.monoids.sums import Count, Mean, Sum, SumOfSquares

__all__ = [
    "M4", "All", "Any", "ApproxDistinct", "ApproxQuantile", "ArgMax", "ArgMin", "BitAnd", "BitOr", "BitXor", "Bloom",
    "Bound", "Collect", "CollectDistinct", "Concat", "Correlation", "Count", "CountDistinct", "CountMin", "Covariance",
    "Delta", "DirectProduct", "EwmMean", "EwmStd", "EwmVar", "First", "FrequentItems", "GeometricMean", "Intercept",
    "Kurtosis", "Lag", "Last", "LongestRun", "Max", "MaxCount", "Mean", "Median", "Min", "MinCount", "Mode", "Monoid",
    "Nth", "PctChange", "PercentRank", "Product", "Quantile", "Range", "Rank", "Skewness", "Slope", "Std", "Sum",
    "SumOfSquares", "Var", "WeightedMean", "monoid",
]  # fmt: skip
