r"""Kernels: inner products in a space of features, k(x, z) = <phi(x), phi(z)>, without the features.

The recipes of the slot ``kernel``. A kernel is positive semidefinite when it is such an inner product: linear, RBF, and
polynomial with ``offset`` >= 0. The sigmoid is none in general.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Annotated, Any, ClassVar

import numpy as np
from sklearn.metrics.pairwise import pairwise_kernels

from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.recipes.parameters import check_parameters
from gnomon.recipes.recipe import Recipe

__all__ = ["RBF", "KernelFunction", "Linear", "Polynomial", "Sigmoid", "centered"]


class KernelFunction(Recipe):
    """Base of the kernels."""

    function: ClassVar[str] = ""

    def options(self) -> dict[str, Any]:
        """The kernel in scikit-learn's words."""
        known = {"degree": "degree", "gamma": "gamma", "offset": "coef0"}
        return {known[name]: value for name, value in self.get_params().items()}

    def _checked(self) -> dict[str, Any]:
        """The options of a kernel whose every field is a number in its range."""
        check_parameters(self, self.get_params())
        options = self.options()
        if options.get("gamma", 1.0) is None:
            remedy = "give a number; a fitted system has it in kernel_"
            raise UserValueError("gamma must be a number, got None", "gamma", remedy)
        return options

    def gram(self, X: Array, Z: Array | None = None) -> Array:
        """Kernel of every pair.

        Parameters
        ----------
        X : array of shape (n, d)
        Z : array of shape (m, d), optional
            X itself when left out.

        Returns
        -------
        array of shape (n, m)

        Raises
        ------
        UserValueError
            A ``gamma`` of None: what it stands for is known only after a fit, as ``SVM.kernel_``; a field out of its
            range.

        Examples
        --------
        >>> Polynomial(degree=2).gram(np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]]))
        array([[36.]])
        """
        options = self._checked()
        return pairwise_kernels(X, Z, metric=self.function, **options)


@dataclass(frozen=True)
class Linear(KernelFunction):
    """k(x, z) = x . z."""

    short: ClassVar[str] = "linear"
    function: ClassVar[str] = "linear"


@dataclass(frozen=True)
class Polynomial(KernelFunction):
    """k(x, z) = (gamma x . z + offset)**degree.

    Parameters
    ----------
    degree : int in [1, 32), default 3
        Power of the sum.
    gamma : float in (0, inf) or None, default 1.0
        None: 1 / (number of columns * variance of the training table).
    offset : float in [0, inf), default 1.0
        0 leaves only the products of exactly `degree` columns.
    """

    short: ClassVar[str] = "polynomial"
    function: ClassVar[str] = "poly"

    degree: Annotated[int, "[1, 32)"] = 3
    gamma: Annotated[float, "(0, inf)"] | None = 1.0
    offset: Annotated[float, "[0, inf)"] = 1.0

    def features(self, X: Array) -> Array:
        r"""The features whose inner products are the kernel: one per monomial of degree up to `degree`.

        The monomial with exponents a_0 (of the offset), a_1 ... a_d has the factor
        :math:`\sqrt{\frac{p!}{a_0! \cdots a_d!}\, offset^{a_0}\, gamma^{p - a_0}}`, p the degree (multinomial theorem).

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n, binomial(d + p, p))
            In memory and time O(n (d + p)^p / p!): the reason for the kernel.

        Examples
        --------
        >>> Polynomial(degree=2).features(np.array([[3.0]])).round(4)  # 1, sqrt(2) x, x^2
        array([[1.    , 4.2426, 9.    ]])
        """
        options = self._checked()
        gamma, offset = (math.sqrt(options[name]) for name in ("gamma", "coef0"))
        rows = np.column_stack([np.full(len(X), offset), gamma * np.asarray(X)])
        columns = []
        for chosen in combinations_with_replacement(range(rows.shape[1]), self.degree):
            ways = math.factorial(self.degree)
            for column in set(chosen):
                ways //= math.factorial(chosen.count(column))
            columns.append(math.sqrt(ways) * np.prod(rows[:, chosen], axis=1))
        return np.column_stack(columns)


@dataclass(frozen=True)
class RBF(KernelFunction):
    """k(x, z) = exp(-gamma |x - z|**2).

    Parameters
    ----------
    gamma : float in (0, inf) or None, default None
        1 / (2 * width**2). None: 1 / (number of columns * variance of the training table).
    """

    short: ClassVar[str] = "rbf"
    function: ClassVar[str] = "rbf"

    gamma: Annotated[float, "(0, inf)"] | None = None


@dataclass(frozen=True)
class Sigmoid(KernelFunction):
    """k(x, z) = tanh(gamma x . z + offset); not positive semidefinite in general, so that a fit may not converge.

    Parameters
    ----------
    gamma : float in (0, inf) or None, default None
        None: 1 / (number of columns * variance of the training table).
    offset : float in (-inf, inf), default 0.0
        What is added to the product before the hyperbolic tangent.
    """

    short: ClassVar[str] = "sigmoid"
    function: ClassVar[str] = "sigmoid"

    gamma: Annotated[float, "(0, inf)"] | None = None
    offset: float = 0.0


def centered(gram: Array) -> Array:
    """The Gram matrix of the features minus their mean: (I - 1/n) K (I - 1/n).

    Parameters
    ----------
    gram : array of shape (n, n)

    Examples
    --------
    >>> centered(np.array([[1.0, 3.0], [3.0, 9.0]]))
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    rows = gram - gram.mean(axis=0, keepdims=True)
    return rows - rows.mean(axis=1, keepdims=True)
