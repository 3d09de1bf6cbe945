"""What the verbs are asked with is checked: a mistake is told in one line by an error of gnomon's."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from gnomon.errors import UserError
from gnomon.testing import Case
from oracles.ways import NAMES, brief_case, takes_table

pytestmark = pytest.mark.filterwarnings("ignore:too little text")

WRONG = [
    None, 3, object(), b"a b", {"a": 1}, np.array(3.0), [None], [[None]], [[1, [2]]], [1.5, "a"], np.eye(2) * 1j,
    sparse.csr_matrix(np.eye(2) * 1j), sparse.coo_matrix(([1j], ([0], [0])), shape=(2, 2)),
]  # fmt: skip
"""What is neither text, nor pairs of texts, nor ratings."""
OTHERS = [name for name in NAMES if not takes_table(name)]
ASKED = ("fit", "score", "evaluate", "log_prob", "predict", "translate", "alignment", "anomaly_score")
OPTIONS = {
    "generate": ("ngram", ("a",), {
        "method": [None, np.ones(3), 3], "temperature": ["x", None, np.nan, 0, 1e-300, 1e308, torch.ones(2)],
        "top_k": ["x", 1.5, 0, True, [1]], "top_p": ["x", np.nan, 0.0, [0.5]], "n": [None, 1.5, -1, "x"],
        "max_length": [None, "x"], "width": ["x"],
    }),
    "perplexity": ("ngram", (["a b"],), {"unknown": [None, np.ones(2), "x" * 4000]}),
    "next_distribution": ("ngram", (), {"context": [3, None, [1], [None], b"a", "a\0b", np.array(1)]}),
    "translate": ("seq2seq", ([("a b",)],), {
        "method": [None, np.ones(3)], "length_penalty": ["x", np.nan, np.inf, 1e308, -1e30], "width": [0, "x"],
    }),
    "bits_per_dim": ("seq2seq", (), {"X": [[("a", "b")]]}),
    "log_gradient_norms": ("gru-lm", (["a b"],), {"length": [0, -1, 1.5, "x", None]}),
    "recommend": ("pmf", ([100],), {"exclude_seen": [None, np.ones(2), 3], "k": [0, 1.5, "x"]}),
    "similar_items": ("pmf", (), {"items": [None, [[1], [1, 2]], [None], sparse.eye(2), {"a": 1}]}),
    "predict": ("pmf", ([(100, 1)],), {"return_std": [None, np.ones(2), 1]}),
}  # fmt: skip
"""Verb: system, arguments before, and wrong values by argument."""


def refused(function, *given, **named):
    """That a call is refused in one short line."""
    with pytest.raises(UserError) as caught:
        function(*given, **named)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_data_of_the_domain_is_refused_by_every_verb(name):
    case: Case = brief_case(name)
    for verb in ASKED:
        if hasattr(case.fitted, verb):
            ask = case.make().fit if verb == "fit" else getattr(case.fitted, verb)
            for wrong in WRONG:
                refused(ask, wrong)


@pytest.mark.parametrize("verb", OPTIONS)
def test_options_of_verbs_are_checked(verb):
    name, given, wrong = OPTIONS[verb]
    for option, values in wrong.items():
        for value in values:
            refused(getattr(brief_case(name).fitted, verb), *given, **{option: value})


def test_ratings_in_other_holders_are_the_same_ratings():
    log = np.array([[1, 7, 5.0], [2, 7, 3.0], [2, 9, 1.0]])
    make, ask = brief_case("pmf").make, [(1, 9), (2, 7)]
    wanted = make(dtype="float64").fit(log).predict(ask)
    for held in (torch.tensor(log), np.ma.array(log), log.astype(np.float16), pd.DataFrame(log), log.tolist()):
        np.testing.assert_array_equal(make(dtype="float64").fit(held).predict(ask), wanted)
    refused(make().fit, np.ma.array(log, mask=log == 9))


@pytest.mark.parametrize(("name", "parameter"), [("mlp", "dtype"), ("mlp", "optimizer"), ("svm", "kernel")])
def test_an_array_is_no_choice(name, parameter):
    refused(brief_case(name).make(**{parameter: np.ones((2, 2))}).fit, brief_case(name).X, brief_case(name).y)
