"""Words of Chinese text, by the package jieba where it is installed."""

from __future__ import annotations

import logging
import warnings
from importlib import import_module
from typing import Any

from gnomon.errors import UserValueError

__all__ = ["segmented"]


def segmented(text: str) -> list[str]:
    """Words of a text as jieba cuts it; blanks are tokens of their own, so that the tokens joined are the text.

    Words that were added to jieba's dictionary count (``jieba.add_word``, ``jieba.load_userdict``).

    Raises
    ------
    UserValueError
        The package is absent.
    """
    found: list[str] = _jieba().lcut(text)
    return found


def _jieba() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its source holds escapes that newer Pythons warn of
            jieba = import_module("jieba")
    except ImportError:
        raise UserValueError(
            "unit 'jieba' needs the package jieba", "unit", "pip install jieba, or choose char"
        ) from None
    jieba.setLogLevel(logging.WARNING)  # no lines about its dictionary among the progress of a fit
    return jieba
