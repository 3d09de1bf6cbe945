"""Names of other libraries lead to ours, through every door."""

import pytest

import gnomon
from gnomon import catalog
from gnomon.cli.main import run
from gnomon.cli.options import parse_system
from gnomon.errors import UserError
from gnomon.recipes.synonyms import ELSEWHERE, SYNONYMS, advice

SKLEARN = [
    ("random-forest", "n_estimators", "did you mean n_trees?"),
    ("random-forest", "min_samples_leaf", "did you mean min_rows_leaf?"),
    ("decision-tree", "ccp_alpha", "did you mean pruning?"),
    ("logistic-regression", "C", "did you mean l2? (C = 1 / (n * l2))"),
    ("linear-regression", "alpha", "did you mean l2"),
    ("mlp", "hidden_layer_sizes", "did you mean hidden?"),
    ("mlp", "max_iter", "did you mean epochs"),
    ("mlp", "momentum", "did you mean optimizer"),
    ("mlp", "n_jobs", "threads are of the context"),
    ("svm", "gamma", "did you mean kernel"),
    ("gaussian-mixture", "covariance_type", "did you mean covariance?"),
    ("kmeans", "k", "did you mean n_clusters?"),
    ("ppca", "n_factors", "did you mean n_components?"),
    ("histogram-boosting", "max_leaf_nodes", "did you mean max_leaves?"),
    ("rbm", "seed", "did you mean random_state?"),
]


@pytest.mark.parametrize(("system", "name", "words"), SKLEARN)
def test_python_and_compare_know_the_names_of_scikit_learn(system, name, words):
    """`make` (hence set_params), the constructor, and SYSTEM:key=value."""
    cls = catalog.load_class(system)
    doors = [lambda: gnomon.make(system, **{name: 1}), lambda: cls(**{name: 1})]
    for door in [*doors, lambda: parse_system(f"{system}:{name}=1")]:
        with pytest.raises((UserError, TypeError)) as caught:
            door()
        assert words in str(caught.value), caught.value
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("system", "option", "words"),
    [("random-forest", "--n-estimators", "--n-trees"), ("mlp", "--hidden_layer_sizes", "--hidden"),
     ("logistic-regression", "--C", "--l2"), ("mlp", "--n-jobs", "gnomon.context(threads"),
     ("random-forest", "--n-treees", "--n-trees")],
)  # fmt: skip
def test_the_command_line_knows_them_too(system, option, words, capsys):
    assert run(["fit", system, "iris", option, "1"]) == 2
    error = capsys.readouterr().err
    assert words in error, error
    assert "unknown option" in error or "has no parameter" in error


def test_every_synonym_leads_to_a_parameter_that_some_system_has():
    names = {p.name for one in catalog() for p in catalog.card(one).parameters}
    slots = {address.replace(".", "__") for one in catalog() for address, _, _ in catalog.card(one).fields()}
    for foreign, ours in SYNONYMS.items():
        assert set(ours) <= names | slots, foreign
    assert not set(ELSEWHERE) & names


def test_what_is_like_nothing_shows_what_there_is():
    assert advice("zzzz", ["a", "b"]) == "known: a, b"
    assert advice("zzzz", []) == "it has none"
