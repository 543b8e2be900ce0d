"""Failures of user functions, injected at a chosen call."""


class Struck(ArithmeticError):
    """Raised by a user function that `Strikes` lets fail."""


class Strikes:
    """Counts the calls of user functions, and raises at the one that `left` chooses. Below 0 it never raises."""

    left = -1

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Struck("injected")
