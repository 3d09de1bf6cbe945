"""What the systems of each task are drawn on, and how: small data on which a look tells what a system does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.preprocessing import minmax_scale

import gnomon
from gnomon.distributions.domains import UnitInterval
from gnomon.evaluation.grids import sample_grid
from gnomon.report.figures import CYCLE, GRAY
from gnomon.tasks.base import task
from gnomon.tasks.components import components
from gnomon.tasks.segment import beside

SIDE = 3.0
"""Of a picture, in inches."""
STEPS = 120
"""Of the grid on which a plane is colored."""
UPDATES = 3000
"""Of a fit by gradient whose arguments do not say how many."""
IMAGES = 36
STYLE: dict[str, Any] = {
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none", "text.color": GRAY,
    "axes.edgecolor": GRAY, "axes.labelcolor": GRAY, "xtick.color": GRAY, "ytick.color": GRAY, "font.size": 9,
}  # fmt: skip
"""Ink that can be seen on white and on black, and no ground."""


def axes_of(width: float = SIDE) -> tuple[Figure, Axes]:
    """Empty axes without ticks."""
    figure = Figure(figsize=(width, SIDE), layout="constrained")
    axes = figure.subplots()
    axes.set(xticks=[], yticks=[])
    return figure, axes


def fitted(system: Any, *data: Any) -> Any:
    """The system after a fit that is cut short where it goes on by gradient."""
    known = system.get_params(deep=False)
    bounds = {"random_state": 0, "max_updates": known.get("max_updates") or UPDATES}
    return system.set_params(**{name: value for name, value in bounds.items() if name in known}).fit(*data)


# --- data -----------------------------------------------------------------------------------------------------------


def moons(n: int = 160) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Two half circles that reach into each other, and which is which."""
    random = np.random.default_rng(0)
    label = np.arange(n) % 2
    angle = random.uniform(0, np.pi, n)
    x = np.where(label, 1 - np.cos(angle), np.cos(angle))
    y = np.where(label, 0.5 - np.sin(angle), np.sin(angle))
    return np.stack([x, y], axis=1) + random.normal(0, 0.17, (n, 2)), label


def wave(n: int = 80) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A wave on a slope, with noise."""
    random = np.random.default_rng(0)
    x = np.sort(random.uniform(-3, 3, n))
    return x[:, None], np.sin(1.8 * x) + 0.5 * x + random.normal(0, 0.3, n)


def clouds(n: int = 240) -> np.ndarray[Any, Any]:
    """Three clouds of different shapes."""
    random = np.random.default_rng(0)
    shapes = [[[0.9, 0.5], [0.0, 0.3]], [[0.35, 0.0], [0.0, 0.9]], [[0.4, 0.0], [0.0, 0.4]]]
    centers = [[-2.0, 0.5], [1.5, 0.5], [0.0, -2.5]]
    parts = [random.normal(size=(n // 3, 2)) @ np.array(a) + c for a, c in zip(shapes, centers, strict=True)]
    return np.concatenate(parts)


def tastes(users: int = 24, items: int = 24) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Whole ratings from 1 to 5 of people and items of three tastes, and which half of them is known."""
    random = np.random.default_rng(0)
    kind = np.arange(users) % 3 == (np.arange(items) % 3)[:, None]
    order = np.argsort(np.arange(users) % 3, kind="stable")
    rating = np.rint(np.clip(np.where(kind, 4.4, 1.8) + random.normal(0, 0.5, kind.shape), 1, 5))[order][:, order]
    return rating, random.random(rating.shape) < 0.5


# --- drawings -------------------------------------------------------------------------------------------------------


def plane(X: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], tuple[float, float, float, float]]:
    """The points of a grid around rows, and its extent."""
    (left, below), (right, above) = X.min(0) - 0.5, X.max(0) + 0.5
    x, y = np.meshgrid(np.linspace(left, right, STEPS), np.linspace(below, above, STEPS))
    return np.stack([x.ravel(), y.ravel()], axis=1), (left, right, below, above)


def colors(labels: np.ndarray[Any, Any]) -> list[str]:
    """A color for each label."""
    return [CYCLE[int(one) % len(CYCLE)] for one in labels]


def regions(system: Any) -> Figure:
    """Where a classifier says which of two classes, and the rows that it has learned from."""
    X, y = moons()
    unit = isinstance(system.domain, UnitInterval)
    X = minmax_scale(X, (0.2, 0.8)) if unit else X
    fitted(system, X, y)
    points, extent = plane(X)
    points = np.clip(points, 0, 1) if unit else points
    figure, axes = axes_of()
    share = system.predict_proba(points)[:, 1] if hasattr(system, "predict_proba") else system.predict(points)
    share = np.asarray(share, np.float64).reshape(STEPS, STEPS)
    axes.imshow(share, extent=extent, origin="lower", cmap=two_colors(), vmin=0, vmax=1, alpha=0.55, aspect="auto")
    axes.scatter(*X.T, c=colors(y), s=14, edgecolors="white", linewidths=0.5)
    return figure


def two_colors() -> Any:
    """From the first color to the second."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("two", [CYCLE[0], "#dddddd", CYCLE[1]])


def curve(system: Any) -> Figure:
    """What a regression makes of a wave."""
    X, y = wave()
    fitted(system, X, y)
    x = np.linspace(-3.3, 3.3, 400)
    figure, axes = axes_of()
    axes.scatter(X[:, 0], y, s=12, color=CYCLE[0], alpha=0.7)
    axes.plot(x, np.asarray(system.predict(x[:, None])), color=CYCLE[1], linewidth=2)
    return figure


def density(system: Any) -> Figure:
    """Lines of equal density over the rows."""
    X = clouds()
    fitted(system, X)
    points, (left, right, below, above) = plane(X)
    figure, axes = axes_of()
    log_prob = system.log_prob if hasattr(system, "log_prob") else system.log_prob_observed
    value = np.asarray(log_prob(points), np.float64).reshape(STEPS, STEPS)
    levels = np.quantile(np.asarray(log_prob(X), np.float64), [0.02, 0.15, 0.35, 0.6, 0.85])
    x, y = np.linspace(left, right, STEPS), np.linspace(below, above, STEPS)
    group = system.predict(X) if hasattr(system, "predict") else np.zeros(len(X))
    axes.scatter(*X.T, c=colors(group), s=10, alpha=0.7)
    axes.contour(x, y, value, levels=np.unique(levels), colors=GRAY, linewidths=1, linestyles="solid")
    return figure


def clusters(system: Any) -> Figure:
    """Which cluster the plane belongs to, and the centers."""
    X = clouds()
    fitted(system, X)
    points, extent = plane(X)
    figure, axes = axes_of()
    group = np.asarray(system.predict(points)).reshape(STEPS, STEPS)
    axes.contourf(group, extent=extent, levels=np.arange(-0.5, 3), colors=CYCLE[:3], alpha=0.3)
    axes.scatter(*X.T, c=colors(system.predict(X)), s=10)
    axes.scatter(*np.asarray(system.cluster_centers_).T, marker="X", s=90, c="white", edgecolors="black")
    return figure


def images(values: Any, shape: tuple[int, ...]) -> Figure:
    """Images in a square."""
    figure, axes = axes_of()
    axes.imshow(sample_grid(np.asarray(values)[:IMAGES], shape), cmap="gray", interpolation="nearest")
    axes.axis("off")
    return figure


def parts_of_digits(system: Any) -> Figure:
    """What a model of images of digits is made of."""
    digits = gnomon.data.load("digits")
    fitted(system, digits.view(system.domain.view))
    found = components(system, digits.columns, digits.images)
    assert found is not None and found.shape is not None
    return images(found.values, found.shape)


def samples_of_digits(system: Any) -> Figure:
    """Digits that a model makes."""
    digits = gnomon.data.load("digits")
    fitted(system, digits.view(system.domain.view), *([digits.y] if system.labeled else []))
    drawn = system.sample(IMAGES, random_state=0)
    return images(drawn[0] if isinstance(drawn, tuple) else drawn, digits.images)


def seen_digits(system: Any) -> Figure:
    """Digits that a classifier has not learned from, with what it takes them for; red where that is wrong."""
    train, test = gnomon.data.split(gnomon.data.load("digits"), seed=0)
    fitted(system, train.view(system.domain.view), train.y)
    X, y = test.view(system.domain.view)[:25], test.y[:25]
    said = system.predict(X)
    figure = Figure(figsize=(SIDE, SIDE), layout="constrained")
    for axes, image, label, right in zip(figure.subplots(5, 5).ravel(), X, said, said == y, strict=True):
        axes.imshow(np.asarray(image).reshape(8, 8), cmap="gray")
        axes.set_title(str(label), fontsize=8, pad=1, color=GRAY if right else CYCLE[6])
        axes.axis("off")
    return figure


def labeled_pixels(system: Any) -> Figure:
    """Scenes that it has not learned from, with the true and the predicted labels of their pixels."""
    train, test = gnomon.data.split(gnomon.data.load("digit-scenes"), seed=0)
    fitted(system, train.view("images"), train.masks)
    X, y = test.view("images")[:6], test.view("masks")[:6]
    figure, axes = axes_of()
    axes.imshow(beside(X, y, system.predict(X), system.classes_))
    axes.axis("off")
    return figure


def embedded(system: Any) -> Figure:
    """Wines in the plane that a network has learned, by grower."""
    wine = gnomon.data.load("wine")
    learns = system.__sklearn_tags__().target_tags.required
    X = wine.X if learns else minmax_scale(wine.X)
    width = "n_components" if "n_components" in system.get_params(deep=False) else "n_latent"
    fitted(system.set_params(**{width: 2}), X, *([wine.y] if learns else []))
    figure, axes = axes_of()
    axes.scatter(*np.asarray(system.transform(X)).T, c=colors(wine.y), s=14, alpha=0.8)
    return figure


def ratings(system: Any) -> Figure:
    """Ratings that are known, and what is expected of all pairs of people and items."""
    rating, known = tastes()
    if system.tasks[0] == "rank":
        known &= rating > 3
    who, what = np.nonzero(known)
    pairs = np.stack([who, what], axis=1)
    fitted(system, pairs, *([] if system.tasks[0] == "rank" else [rating[known]]))
    every = np.stack([one.ravel() for one in np.indices(rating.shape)], axis=1)
    seen = np.isin(every[:, 1], np.unique(what)) & np.isin(every[:, 0], np.unique(who))
    expected = np.full(rating.size, np.nan)
    expected[seen] = system.predict(every[seen])
    figure = Figure(figsize=(2 * SIDE, SIDE), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.imshow(np.where(known, rating, np.nan), cmap="viridis")
    right.imshow(expected.reshape(rating.shape), cmap="viridis")
    for axes, title in ((left, "known"), (right, "expected")):
        axes.set(xticks=[], yticks=[], xlabel="items", ylabel="people", title=title)
    return figure


def next_letters(system: Any) -> Figure:
    """How likely each letter is to come next, along a sentence; what came next is marked."""
    text = gnomon.data.load("python-reference").view("text")
    fitted(system.set_params(unit="char"), text[:400])
    sentence = "the value of the "
    rows = np.array([system.next_distribution(sentence[:k]) for k in range(len(sentence))])
    words = list(system.vocabulary_.decode(range(rows.shape[1])))
    letters = [one for one in "abcdefghijklmnopqrstuvwxyz " if one in words]
    figure, axes = axes_of(1.4 * SIDE)
    axes.imshow(rows[:, [words.index(one) for one in letters]].T, cmap="viridis", aspect="auto", vmin=0)
    axes.set_xticks(range(len(sentence)), ["␣" if one == " " else one for one in sentence])
    axes.set_yticks(range(len(letters)), ["␣" if one == " " else one for one in letters], fontsize=6)
    axes.scatter(range(len(sentence)), [letters.index(one) for one in sentence], s=8, color=CYCLE[6])
    return figure


def attention(system: Any) -> Figure:
    """Where a translator looks when it writes a string backward."""
    random = np.random.default_rng(0)
    words = ["".join(random.choice(list("abcdef"), random.integers(3, 7))) for _ in range(600)]
    fitted(system.set_params(n_hidden=48, n_embedding=16, epochs=20), [(w, w[::-1]) for w in words])
    pair = ("abcdef", "fedcba")
    (weights,) = system.alignment([pair])
    figure, axes = axes_of()
    axes.imshow(weights, cmap="viridis", vmin=0, vmax=1)
    axes.set_xticks(range(len(pair[0])), [*pair[0]])
    axes.set_yticks(range(len(pair[1]) + 1), [*pair[1], "end"])
    axes.set(xlabel="read", ylabel="written")
    return figure


def sorted_texts(system: Any) -> Figure:
    """What a classifier of texts takes docstrings of each part of the standard library for."""
    train, test = gnomon.data.split(gnomon.data.load("python-docstrings"), seed=0)
    fitted(system, list(train.view("documents")), train.y)
    said = np.asarray(system.predict(list(test.view("documents"))))
    names = list(test.classes or system.classes_)
    counts = np.array([[np.mean(said[test.y == i] == j) for j in range(len(names))] for i in range(len(names))])
    figure, axes = axes_of()
    axes.imshow(counts, cmap="viridis", vmin=0, vmax=1)
    axes.set_xticks(range(len(names)), names, rotation=30)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="said", ylabel="is")
    return figure


def tagged_words(system: Any) -> Figure:
    """What a tagger takes the tokens of statements of Python for."""
    data, goal = gnomon.data.load("python-statements"), task("tag")
    train, test = gnomon.data.split(data, seed=0)
    fitted(system, *goal.examples(train, system))
    (figure,) = goal.figures(system, *goal.examples(test, system)).values()
    return figure


def texts_as_points(system: Any) -> Figure:
    """Vectors of docstrings, by the part of the standard library, in their two main directions."""
    data = gnomon.data.load("python-docstrings")
    text = [str(one) for one in data.view("documents")]
    fitted(system, text)
    vectors = np.asarray(system.transform(text[::3]))
    left, spread, _ = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    figure, axes = axes_of()
    axes.scatter(*(left[:, :2] * spread[:2]).T, c=colors(data.y[::3]), s=8, alpha=0.7)
    return figure


def captioned(system: Any) -> Figure:
    """Images that it has not learned from, under the captions that it writes."""
    train, test = gnomon.data.split(gnomon.data.load("colored-shapes"), seed=0)
    fitted(system, train.view("images"), train.text)
    X = test.view("images")[:6]
    figure = Figure(figsize=(1.6 * SIDE, SIDE), layout="constrained")
    for axes, image, caption in zip(figure.subplots(2, 3).flat, X, system.predict(X), strict=True):
        axes.imshow(np.clip(image, 0, 1))
        axes.set_title(str(caption), fontsize=7)
        axes.axis("off")
    return figure


def framed(system: Any) -> Figure:
    """Scenes that it has not learned from, with the boxes that are there and those that it finds."""
    data, goal = gnomon.data.load("digit-boxes"), task("detect")
    train, test = gnomon.data.split(data, seed=0)
    fitted(system, *goal.examples(train, system))
    (figure,) = goal.figures(system, *goal.examples(test, system)).values()
    return figure


CAPTIONS: dict[Callable[[Any], Figure], str] = {
    regions: "Two classes that reach into each other: the color is what it says of each place.",
    curve: "A noisy wave on a slope, and what is predicted.",
    density: "Three clouds, and lines of equal density.",
    clusters: "Three clouds, the clusters that are found, and their centers.",
    parts_of_digits: "What it is made of after a short fit to handwritten digits.",
    samples_of_digits: "Digits that it makes after a short fit.",
    seen_digits: "Digits that it has not learned from, and what it takes them for; wrong ones in red.",
    labeled_pixels: "Scenes that it has not learned from, the true labels of their pixels, and those that it finds.",
    sorted_texts: "Docstrings that it has not learned from, and which part of Python's library it takes them for.",
    tagged_words: "Tokens of statements of Python: what they are, as rows, and what they are taken for.",
    texts_as_points: "Vectors of docstrings in their two main directions, colored by the part of Python's library.",
    framed: "Scenes that it has not learned from: the boxes that are there, and those that it finds, dashed.",
    captioned: "Images that it has not learned from, under what it says of them.",
    embedded: "Wines of three growers in the plane that it has learned.",
    ratings: "Ratings that are known, and what is expected of all pairs.",
    next_letters: "How likely each letter is to come next in a sentence; what came next is marked.",
    attention: "Where it looks in a word when it writes the word backward.",
}
"""What each drawing shows."""


def drawing(system: Any) -> Callable[[Any], Figure] | None:
    """How a system is drawn; None where there is no way."""
    goal, view = system.tasks[0], system.domain.view
    if view == "documents":
        return tagged_words if goal == "tag" else sorted_texts
    if goal == "segment":
        return labeled_pixels
    if view == "images":
        return {"classify": seen_digits, "caption": captioned, "detect": framed}.get(goal)
    if goal == "density" and view == "density":
        return samples_of_digits if "generate" in system.tasks else density
    if goal == "density" and not any(hasattr(type(system), name) for name in ("means_", "visible_bias_", "biases_")):
        return samples_of_digits
    return {
        "classify": regions, "regress": curve, "cluster": clusters, "density": parts_of_digits,
        "generate": samples_of_digits, "represent": embedded, "recommend": ratings, "rank": ratings,
        "language": next_letters, "translate": attention, "fill": texts_as_points,
        "embed": texts_as_points,
    }.get(goal)  # fmt: skip
