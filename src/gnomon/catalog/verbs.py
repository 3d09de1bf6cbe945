"""What a system can be asked, and what it is made of: the one list that System, cards and documentation read."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["HOOKS", "VERBS", "allows"]

VERBS = {
    "log_prob": "HasLogProb",
    "anomaly_score": "HasLogProb",
    "score_samples": "HasLogProb and has_row_density",
    "bits_per_dim": "HasLogProb and not NextToken",
    "energy": "HasEnergy",
    "sample": "Samples",
    "recommend": "ScoresPairs",
    "predict_proba": "has_probabilities",
    "predict_log_proba": "has_probabilities",
}
"""What a verb of a base class needs: contracts (`gnomon.contracts`) of the model, or an attribute of the system."""

HOOKS = (
    # from data to examples
    "check_parameters", "ingest", "ingest_validation", "text_examples", "encode_target", "known_domain", "layout",
    # the model and its first values
    "arguments", "make", "make_estimator", "initialize", "begun", "begin_model", "foreign_weights",
    # how it is fitted
    "recipe", "min_batch_size", "batch_transform", "make_objective", "descent", "procedure", "problem", "finish",
    "make_layer", "make_encoder", "wants_pairs",
    # in chunks
    "examples_of_chunk", "chunk", "sums_of", "pooled", "solve", "first_seed",
    # rows that are sequences
    "frames_of", "learned",
    # its answers
    "class_log_proba", "class_proba", "class_codes", "predict_rows", "target_distribution", "draw_targets",
    "latent_posterior", "latent_means", "latent_modes", "own_rows", "writer",
    # rows with missing cells
    "cells_given", "cells_drawn", "observed_estimate", "completed", "latent_view",
    "normal_density", "column_states", "bits_by_state", "tilted_bits", "complete_log_density",
    # what a class says of itself
    "get_params", "set_params", "restore",
)  # fmt: skip
"""Public methods that a subclass implements or that configure, in the order of a fit: no verbs of people."""


def allows(need: str, has: Callable[[str], bool]) -> bool:
    """Whether what a verb needs is there.

    Parameters
    ----------
    need : str
        Names joined by "and"; "not" before a name means that it must be missing.
    has : callable
        Whether a name is there.

    Examples
    --------
    >>> allows("HasLogProb and not NextToken", {"HasLogProb"}.__contains__)
    True
    """
    parts = [part.split() for part in need.split(" and ")]
    return all(has(words[-1]) == (words[0] != "not") for words in parts)
