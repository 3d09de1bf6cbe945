"""One title and one sentence on how to read it for every picture that tasks draw."""

from __future__ import annotations

__all__ = ["LEGENDS"]

LEGENDS: dict[str, tuple[str, str]] = {
    "confusion": (
        "Who was taken for whom",
        "Rows are true classes, columns predicted ones; off the diagonal is wrong.",
    ),
    "labeled_pixels": (
        "Images, truth, prediction",
        "Each image with the true and the predicted classes of its pixels in colors; gray pixels have no label.",
    ),
    "boxes": (
        "What is found on images",
        "Green boxes are there, dashed orange ones are found, with the label they are given.",
    ),
    "captions": (
        "What is written of images",
        "Each image with its caption, in red where it is not the true one, and where the decoder looked for each word.",
    ),
    "confused_pixels": (
        "Which pixels were taken for which",
        "Rows are true classes, columns predicted ones; off the diagonal is wrong.",
    ),
    "confused_tags": (
        "Which tag was taken for which",
        "Rows are true tags of words, columns predicted ones; off the diagonal is wrong.",
    ),
    "calibration": (
        "Do stated probabilities come true?",
        "On the diagonal they do, below it the system is too sure; bars are one standard error.",
    ),
    "roc": (
        "Found against false alarms",
        "A point for each threshold: the nearer to the upper left, the better; the diagonal is chance.",
    ),
    "precision_recall": (
        "Precision against recall",
        "What share of the alarms is right, for each share of the class that is found.",
    ),
    "predictions": (
        "Predicted against true",
        "On the line the prediction is right.",
    ),
    "residuals": (
        "What is left",
        "True less predicted numbers: a pattern in them is something that was not learned.",
    ),
    "log_prob": (
        "Log probabilities",
        "How likely the system holds each row to be; those far to the left are unusual.",
    ),
    "samples": (
        "Drawn by the model",
        "What it makes by itself: compare it with the data.",
    ),
    "data": (
        "Data",
        "Rows that the fit has not seen.",
    ),
    "sizes": (
        "Clusters",
        "How many rows each has.",
    ),
    "errors": (
        "Errors of ratings",
        "Expected less true rating: the narrower around 0, the better.",
    ),
    "items": (
        "Map of items",
        "Items that the same people like are near each other; those of many people are larger.",
    ),
    "representation": (
        "Representation",
        "A line for each row: what the system keeps of it.",
    ),
    "map": (
        "Map of rows",
        "Rows that are near each other are alike to the system; colors are labels, where there are any.",
    ),
    "clusters": (
        "Map of clusters",
        "Rows in the two directions in which they spread most; clusters that overlap here may lie apart in others.",
    ),
    "lists": (
        "Lists of every length",
        "Longer lists find more (recall) and are right less often (precision); ndcg counts what stands first most.",
    ),
    "impurity": (
        "Decrease of impurity",
        "Share of what the trees gained by each column on training rows; it favors many values.",
    ),
    "permutation": (
        "Permutation importance",
        "How much worse the score is when a column is shuffled; bars are one standard error.",
    ),
}
"""Title and sentence by the name that a task gives its picture."""
