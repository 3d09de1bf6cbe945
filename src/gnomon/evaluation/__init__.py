"""How good a model is and how we know: scores that say whether they are exact, an estimate or a bound.

Names are loaded when they are first used: ``gnomon.evaluation.accuracy``.
"""

from __future__ import annotations

from typing import Any

from gnomon.recipes.imports import load

_WHERE = {
    "agreement": ("cohen_kappa", "kappa_of", "matthews", "matthews_of"),
    "anomaly": ("threshold",),
    "anomaly_ranking": ("AnomalyRanking", "rank_anomalies"),
    "bias_variance": ("decompose",),
    "bleu_scores": ("Bleu", "corpus_bleu", "sentence_bleu"),
    "blind": ("BlindTrial", "TrialScore", "exact_interval", "make_blind_trial", "score_trial"),
    "boxes": ("Matches", "box_iou", "detection_precision", "match_boxes", "non_maximum_suppression"),
    "calibration": ("Reliability", "TemperatureScaler", "confidence", "reliability"),
    "classification": ("brier", "classification_metrics"),
    "clusters": ("silhouette", "silhouettes", "stability"),
    "collapse": ("CollapseReport", "collapse_report"),
    "coefficients": (
        "Coefficients", "least_squares_coefficients", "logistic_coefficients", "posterior_coefficients",
    ),
    "confusion": ("ConfusionMatrix", "confusion_matrix"),
    "costs": (
        "bayes_error", "bayes_error_gaussians", "decide", "optimal_threshold", "plugin_bayes_error", "total_cost",
    ),
    "curves": ("PRCurve", "auprc", "average_precision", "pr_area", "pr_curve", "threshold_for"),
    "decisions": (
        "accuracy", "error_rate", "f_score", "precision", "precision_recall", "recall", "share_interval",
    ),
    "copies": ("Memorization", "memorization", "nearest_training"),
    "data_units": (
        "DataSignature", "discrete_bound", "in_original_units", "log_volume", "pipeline_scores",
    ),
    "detection": ("detection_scores",),
    "degenerate": ("DegenerateColumn", "check_degenerate", "column_densities"),
    "density": ("density_score",),
    "diagnosis": ("Diagnosis", "Finding", "examine"),
    "efficiency": ("Asymptotics", "asymptotic_covariance", "relative_efficiency"),
    "evidence_bound": (
        "BoundCheck", "ElboTerms", "SolvedModel", "check_bound", "elbo", "elbo_terms", "free_energy",
    ),
    "glue": ("GlueTask", "TaskResult", "glue_score", "suite_score"),
    "gradient_estimates": ("GradientVariance", "gradient_variance"),
    "gradient_noise": ("ChainEstimator", "GradientMoments", "gradient_bias_variance"),
    "gradients": ("GradientReport", "ParameterCheck", "gradcheck", "gradient_check"),
    "grids": ("chain_grid", "filter_grid", "flat_filters", "sample_grid"),
    "hidden_windows": ("nearest_rows", "occlusion"),
    "importance": ("permutation",),
    "information": (
        "conditional_entropy", "cross_entropy", "differential_entropy", "entropy", "entropy_of_counts",
        "joint_entropy", "js", "kl", "kl_samples", "largest_entropy", "mutual_information", "npmi", "pmi", "ppmi",
        "self_information", "symmetric_kl",
    ),
    "inference_harm": ("HarmReport", "InferenceGap", "LearnsBothWays", "harm_report", "inference_gap"),
    "latent_likelihood": ("latent_log_prob", "latent_score"),
    "likelihood": ("log_likelihood", "pseudo_log_likelihood"),
    "model_comparison": ("ModelComparison", "compare_models"),
    "modes": ("ModeCoverage", "mode_coverage"),
    "overlays": ("overlay_boxes", "overlay_heat"),
    "overfit": ("OverfitReport", "overfit_tiny"),
    "partition": ("AIS", "Bracket", "BracketedNormalizer", "BridgeSampling", "Importance", "Linked", "log_partition"),
    "partition_tracking": ("PartitionTracker",),
    "perplexity": ("Perplexity", "bits_per_byte"),
    "power_law": ("PowerLaw",),
    "ranking": ("Ranking",),
    "recommendation": ("Placements", "rmse"),
    "regression": ("psnr", "r_squared", "regression_metrics", "regression_scores"),
    "rejection": (
        "Coverage", "CoverageCurve", "RejectOption", "coverage_at_accuracy", "coverage_curve", "fit_threshold",
    ),
    "roc": ("roc_auc", "roc_auc_of_classes", "roc_curve"),
    "score": ("Score",),
    "segmentation": ("pixel_counts", "segmentation_scores"),
    "shifts": ("equivariance_error", "invariance_error"),
    "similarity": ("angle", "cosine_distance", "cosine_similarity", "neighbors"),
    "sounds": ("save_wav",),
    "spurious": ("SpuriousMass", "spurious_mass"),
    "tagging": ("marks_spans", "tagged_spans", "tagging_scores"),
    "text_scores": ("byte_lengths", "char_lengths"),
    "translation": ("bleu", "translation_scores"),
    "two_sample": (
        "TwoSampleTest", "classifier_test", "density_coverage", "maximum_mean_discrepancy", "median_distance",
        "mmd_test",
    ),
    "word_pairs": ("neighbor_auc",),
}  # fmt: skip
_HOME = {name: module for module, names in _WHERE.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(f"{__name__}.{_HOME[name]}:{name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
