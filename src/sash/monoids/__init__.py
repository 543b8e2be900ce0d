"""The algebra of aggregates: the classes. Functions such as `sash.max("price")` bind one to columns."""

from sash.monoids.algebra import Bound, Monoid
from sash.monoids.collect import Collect, CollectDistinct, Concat
from sash.monoids.custom import monoid
from sash.monoids.direct_product import DirectProduct
from sash.monoids.ewm import EwmMean, EwmStd, EwmVar
from sash.monoids.extremes import ArgMax, ArgMin, Max, MaxCount, Min, MinCount, Range
from sash.monoids.first_last import M4, First, Last, Nth
from sash.monoids.lag import Delta, Lag, PctChange
from sash.monoids.logic import All, Any, BitAnd, BitOr, BitXor
from sash.monoids.longest_run import LongestRun
from sash.monoids.moments import Kurtosis, Skewness, Std, Var
from sash.monoids.product import GeometricMean, Product
from sash.monoids.rank_statistics import CountDistinct, Median, Mode, PercentRank, Quantile, Rank
from sash.monoids.regression import Correlation, Covariance, Intercept, Slope
from sash.monoids.sketches import ApproxDistinct, ApproxQuantile, Bloom, CountMin, FrequentItems
from sash.monoids.sums import Count, Mean, Sum, SumOfSquares
from sash.monoids.weighted import WeightedMean

__all__ = [
    "M4", "All", "Any", "ApproxDistinct", "ApproxQuantile", "ArgMax", "ArgMin", "BitAnd", "BitOr", "BitXor", "Bloom",
    "Bound", "Collect", "CollectDistinct", "Concat", "Correlation", "Count", "CountDistinct", "CountMin", "Covariance",
    "Delta", "DirectProduct", "EwmMean", "EwmStd", "EwmVar", "First", "FrequentItems", "GeometricMean", "Intercept",
    "Kurtosis", "Lag", "Last", "LongestRun", "Max", "MaxCount", "Mean", "Median", "Min", "MinCount", "Mode", "Monoid",
    "Nth", "PctChange", "PercentRank", "Product", "Quantile", "Range", "Rank", "Skewness", "Slope", "Std", "Sum",
    "SumOfSquares", "Var", "WeightedMean", "monoid",
]  # fmt: skip
