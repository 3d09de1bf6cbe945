"""What other libraries call a hyper-parameter: the first place to look when a name is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gnomon.errors import nearest

__all__ = ["ELSEWHERE", "SYNONYMS", "advice", "suggestions"]

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    # trees and what is made of them
    "n_estimators": ("n_trees", "n_members"),
    "num_trees": ("n_trees",),
    "ntree": ("n_trees",),
    "num_boost_round": ("n_trees",),
    "num_iterations": ("n_trees", "epochs"),
    "min_samples_leaf": ("min_rows_leaf",),
    "min_child_samples": ("min_rows_leaf",),
    "min_data_in_leaf": ("min_rows_leaf",),
    "min_child_weight": ("min_rows_leaf",),
    "min_samples_split": ("min_rows_split",),
    "min_impurity_decrease": ("min_decrease",),
    "ccp_alpha": ("pruning",),
    "max_leaf_nodes": ("max_leaves",),
    "num_leaves": ("max_leaves",),
    "max_bin": ("max_bins",),
    "subsample": ("row_share", "max_samples"),
    "bagging_fraction": ("row_share", "max_samples"),
    "colsample_bytree": ("max_features",),
    "feature_fraction": ("max_features",),
    "l2_regularization": ("l2",),
    "reg_lambda": ("l2",),
    "reg_alpha": ("l1",),
    "oob_score": ("out_of_bag",),
    "n_iter_no_change": ("patience", "early_stopping"),
    "early_stopping_rounds": ("patience", "early_stopping"),
    "validation_fraction": ("held_out", "early_stopping"),
    "estimator": ("base", "final"),
    "base_estimator": ("base",),
    "estimators": ("members",),
    "final_estimator": ("final",),
    "cv": ("folds",),
    # linear models, networks, steps along a gradient
    "C": ("C", "l2"),
    "alpha": ("l2", "smoothing", "weight_prior", "l1"),
    "lambda": ("l2", "l1"),
    "penalty": ("l2", "l1"),
    "weight_decay": ("l2", "optimizer"),
    "l1_ratio": ("l1", "l2"),
    "fit_intercept": ("intercept",),
    "normalize": ("standardize",),
    "hidden_layer_sizes": ("hidden", "n_hidden"),
    "hidden_size": ("n_hidden", "hidden"),
    "hidden_dim": ("n_hidden", "hidden"),
    "hidden_units": ("n_hidden", "hidden"),
    "n_units": ("n_hidden", "hidden"),
    "embedding_dim": ("n_embedding",),
    "embedding_size": ("n_embedding",),
    "activation_function": ("activation",),
    "dropout_rate": ("dropout",),
    "learning_rate_init": ("learning_rate",),
    "lr": ("learning_rate",),
    "eta0": ("learning_rate",),
    "eta": ("learning_rate",),
    "max_iter": ("epochs", "n_trees", "max_updates"),
    "n_iter": ("max_iter", "epochs", "n_trees"),
    "iterations": ("max_iter", "epochs", "n_trees"),
    "max_epochs": ("epochs",),
    "n_epochs": ("epochs",),
    "num_epochs": ("epochs",),
    "max_steps": ("max_updates",),
    "minibatch_size": ("batch_size",),
    "solver": ("optimizer", "method", "learner"),
    "scheduler": ("schedule",),
    "lr_scheduler": ("schedule",),
    "gradient_clip": ("clip",),
    "clipnorm": ("clip",),
    "clipvalue": ("clip_value",),
    "momentum": ("optimizer__momentum",),
    "patience": ("early_stopping__patience",),
    "gamma": ("kernel__gamma",),
    "degree": ("kernel__degree",),
    "coef0": ("kernel__offset",),
    "cd_k": ("objective__k",),
    "n_gibbs": ("objective__k",),
    # mixtures, factors, densities, text, ratings
    "n_clusters": ("n_components",),
    "k": ("n_clusters", "n_components", "n_factors"),
    "n_mixtures": ("n_components",),
    "covariance_type": ("covariance",),
    "reg_covar": ("covariance",),
    "n_factors": ("n_components", "n_latent"),
    "factors": ("n_factors", "n_components"),
    "rank": ("n_factors", "n_components"),
    "n_topics": ("n_components",),
    "latent_dim": ("n_latent", "n_components"),
    "z_dim": ("n_latent",),
    "n_hidden_units": ("n_hidden",),
    "n_components": ("n_hidden", "n_clusters", "n_factors", "n_latent"),
    "shrinkage": ("covariance",),
    "threshold": ("tol",),
    "tolerance": ("tol",),
    "ngram_range": ("n",),
    "order": ("n",),
    "min_df": ("min_count",),
    # everywhere
    "seed": ("random_state",),
    "random_seed": ("random_state",),
    "rng": ("random_state",),
}
"""By the name elsewhere, the names here, the most usual first; ``slot__field`` is a field of a slot's recipe."""

ELSEWHERE: Mapping[str, str] = {
    "n_jobs": "threads are of the context: gnomon.context(threads=...)",
    "verbose": "it is of the context: gnomon.context(verbose=...)",
    "device": "it is of the context: gnomon.context(device=...)",
    "class_weight": "weigh the rows: fit(X, y, sample_weight=...), or a loss with class weights",
    "warm_start": "partial_fit goes on from a fit, where a system has it",
    "probability": "what gives probabilities has predict_proba without asking",
}
"""What a name is about that no hyper-parameter stands for."""

_NOTES = {("C", "l2"): "C = 1 / (n * l2)", ("alpha", "l2"): "alpha = n * l2"}


def suggestions(word: str, known: Sequence[str], n: int = 3) -> list[str]:
    """The known names that stand for a word: what it is called elsewhere, then the names most like it.

    Examples
    --------
    >>> suggestions("n_estimators", ["n_trees", "max_depth"])
    ['n_trees']
    >>> suggestions("max_dept", ["n_trees", "max_depth"])
    ['max_depth']
    """
    return _meant(word, known)[:n] or nearest(word, list(known), n)


def advice(word: str, known: Sequence[str]) -> str:
    """What to do about a name that is not known, in a few words.

    Examples
    --------
    >>> advice("C", ["l2", "epochs"])
    'did you mean l2? (C = 1 / (n * l2))'
    >>> advice("n_jobs", ["l2", "epochs"])
    'threads are of the context: gnomon.context(threads=...)'
    """
    if word in ELSEWHERE and not _meant(word, known):
        return ELSEWHERE[word]
    close = suggestions(word, known)
    if not close:
        return f"known: {', '.join(known)}" if known else "it has none"
    note = _NOTES.get((word, close[0]))
    return f"did you mean {', '.join(close)}?" + (f" ({note})" if note else "")


def _meant(word: str, known: Sequence[str]) -> list[str]:
    """What a word of another library stands for, among the known names; with dots where these have them."""
    found = []
    for name in SYNONYMS.get(word, SYNONYMS.get(word.lower(), ())):
        dotted, slot = name.replace("__", "."), name.partition("__")[0]
        if dotted in known:
            found.append(dotted)
        elif slot in known and name != word and not any("." in one for one in known):
            found.append(name)
    return found
