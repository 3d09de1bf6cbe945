"""The refusal of a question to a system that has not been fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.exceptions import NotFittedError

__all__ = ["SaysUnfitted"]

SAYS = "This %(name)s instance is not fitted yet. Call 'fit' before using this estimator."


class SaysUnfitted:
    """Base: what only a fit gives (``model_``, ``classes_`` ...) says that there has been none, whoever asks for it.

    The error is an AttributeError too, so that ``hasattr`` answers no.

    Examples
    --------
    >>> import gnomon
    >>> gnomon.RBM().energy([[0.0, 1.0]])
    Traceback (most recent call last):
    ...
    sklearn.exceptions.NotFittedError: This RBM instance is not fitted yet. Call 'fit' before using this estimator.
    """

    if not TYPE_CHECKING:  # or every attribute would be known to a checker of types

        def __getattr__(self, name: str) -> Any:
            if name.endswith("_") and not name.startswith("_") and "model_" not in vars(self):
                raise NotFittedError(SAYS % {"name": type(self).__name__})
            return object.__getattribute__(self, name)  # the error that it was
