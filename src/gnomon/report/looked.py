"""The section about what a network of images looks at: maps over pixels, feature maps, nearest training images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.evaluation.overlays import overlay_heat
from gnomon.report.figures import picture, pictures
from gnomon.report.page import Section, table
from gnomon.report.subject import Subject
from gnomon.tasks import pictures as drawings
from gnomon.tasks.looking import colored, feature_grid, image_shape, look, neighbor_grid, side_by_side
from gnomon.tasks.mistakes import mistakes

__all__ = ["looked_of"]

FIRST, WORST = 3, 5
"""Images at equal distances, and mistakes, that are looked at."""
MAPS = 16
"""Feature maps of a stage that are drawn."""
NEAREST = 5
MULTIPLY_ADDS = 5_000_000_000
"""What the search for nearest training images may cost: a second or so."""
LEAST = 100
"""Training images that are searched, whatever it costs."""


def looked_of(subject: Subject) -> Section | None:
    """What a convolutional network looks at; None of all other systems."""
    system: Any = subject.system
    if subject.held is None or not hasattr(system, "grad_cam") or not len(subject.held):
        return None
    shape = image_shape(system, subject.held)
    if shape is None:
        return None
    X, y = (np.asarray(one) for one in subject.examples)
    places = _places(system, X, y)
    drawn = [_maps(system, X, places, shape), *_features(system, X[places[:1]])]
    body = pictures(drawn) + _neighbors(subject, X, y, places, shape)
    reading = (
        "A few held-out images, not chosen, then the mistakes of which the network is surest. Red speaks for the class "
        "that is predicted; where it lies beside the object, the network has learned something else."
    )
    return Section("What the network looks at", reading, body)


def _places(system: Any, X: NDArray[Any], y: NDArray[Any]) -> NDArray[np.int64]:
    first = drawings.some(len(X), FIRST)
    found = mistakes(system, X, y, most=WORST)
    worst = np.zeros(0, np.int64) if found is None else np.asarray(found.places, np.int64)
    return np.concatenate([first, worst[~np.isin(worst, first)]])


def _maps(system: Any, X: NDArray[Any], places: NDArray[np.int64], shape: tuple[int, int, int]) -> str:
    found = look(system, X, places, shape)
    columns = [colored(found.images), overlay_heat(found.images, found.maps)]
    gradient = system.saliency(X[places])
    if gradient.shape == found.maps.shape:
        columns.append(overlay_heat(found.images, gradient))
    figure = drawings.framed(side_by_side(columns))
    reading = "The image, where its class is seen (Grad-CAM), and the pixels that would move the score most."
    return picture(figure, "Image, Grad-CAM, gradient", reading)


def _features(system: Any, X: NDArray[Any]) -> list[str]:
    """Maps of the first image at the first and the last stage."""
    stages = sorted({0, len(system.model_.features) - 1})
    found = []
    for stage, maps in zip(stages, system.features(X, stages=stages), strict=True):
        n = maps.shape[-1]
        some = f"the first {MAPS} of {n} maps" if n > MAPS else f"{n} maps"
        title = f"Feature maps behind stage {stage}"
        figure = drawings.framed(feature_grid(maps[0], MAPS))
        found.append(picture(figure, title, f"Of the first image, {some} of {maps.shape[1]} x {maps.shape[2]} places."))
    return found


def _neighbors(
    subject: Subject, X: NDArray[Any], y: NDArray[Any], places: NDArray[np.int64], shape: tuple[int, int, int]
) -> str:
    """Training images that the network holds to be like each of the images."""
    if subject.seen is None or subject.train is None:
        return ""
    system: Any = subject.system
    known, labels = (np.asarray(one) for one in subject.seen)
    searched = drawings.some(len(known), _affordable(system))
    near, distances = system.nearest(X[places], known[searched], NEAREST)
    near = searched[near]
    figure = drawings.framed(neighbor_grid(X[places].reshape(-1, *shape), known.reshape(-1, *shape), near))
    some = f" among {len(searched)} of {len(known)} training images" if len(searched) < len(known) else ""
    reading = (
        f"The image, then the nearest{some} in what the last layer reads: look at wrong labels, twins, backgrounds."
    )
    drawn = pictures([picture(figure, "Nearest training images", reading)])
    predicted = np.asarray(system.predict(X[places]))
    numbers = places if subject.held is None or subject.held.rows is None else np.asarray(subject.held.rows)[places]
    rows = [
        (numbers[i], y[place], predicted[i], ", ".join(map(str, labels[near[i]])), f"{distances[i, 0]:.3g}")
        for i, place in enumerate(places)
    ]
    header = ["row", "true", "predicted", "classes of the nearest", "distance of the first"]
    return drawn + table(header, rows, right=[0, 4], caption="nearest training images")


def _affordable(system: Any) -> int:
    """Training images whose features are computed."""
    from gnomon.tasks.layer_costs import layer_costs

    return max(LEAST, MULTIPLY_ADDS // max(1, layer_costs(system).multiply_adds))
