"""The names of the built-in data sets, without loading anything."""

from __future__ import annotations

__all__ = ["BUILTIN", "names"]

BUILTIN: dict[str, str] = {
    "breast-cancer": "569 tumors, 30 measurements of cell nuclei, malignant or benign (scikit-learn)",
    "diabetes": "442 patients, 10 standardized measurements, progression after a year (scikit-learn)",
    "digits": "1797 handwritten digits of 8 x 8 pixels, 17 grey levels, 10 classes (scikit-learn)",
    "iris": "150 flowers, 4 lengths in centimeters, 3 species (scikit-learn)",
    "python-reference": "English prose of the Python language reference, sentence by sentence (Python)",
    "wine": "178 wines, 13 chemical measurements, 3 growers (scikit-learn)",
}


def names() -> dict[str, str]:
    """Every built-in data set with one line about it, in order of name.

    Examples
    --------
    >>> list(names())[:2]
    ['breast-cancer', 'diabetes']
    """
    return dict(BUILTIN)
