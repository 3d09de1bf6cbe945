"""Sequences of small images that a rule makes."""

from __future__ import annotations

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.numeric.noise import Noise

__all__ = ["bouncing_ball"]

SIDE, BALL = 5, 2


def bouncing_ball(n: int = 400, n_frames: int = 12) -> Dataset:
    """A ball of 2 x 2 pixels that crosses a square of 5 x 5 and is thrown back by its sides, frame after frame.

    A row has the frames one after the other, 25 columns of 0 and 1 each. The ball starts anywhere and moves by a pixel
    in both directions at every step, so that two frames say all that follows: the sequences have 3.47 nats of entropy
    together, 2.77 in each frame alone.

    Parameters
    ----------
    n : int, default 400
    n_frames : int, default 12

    Examples
    --------
    >>> bouncing_ball(1, 2).X.reshape(2, 5, 5).astype(int).tolist()[0]
    [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 0]]
    """
    noise, most = Noise(0, "bouncing-ball"), SIDE - BALL
    place = np.asarray(noise.integers(most + 1, (n, 2)))
    step = 2 * np.asarray(noise.child("step").integers(2, (n, 2))) - 1
    frames = np.zeros((n, n_frames, SIDE, SIDE))
    rows = np.arange(n)
    for t in range(n_frames):
        for i in range(BALL):
            for j in range(BALL):
                frames[rows, t, place[:, 0] + i, place[:, 1] + j] = 1
        step = np.where((place + step < 0) | (place + step > most), -step, step)
        place = place + step
    columns = [f"frame_{t}_pixel_{i}_{j}" for t in range(n_frames) for i in range(SIDE) for j in range(SIDE)]
    name = "bouncing-ball"
    return Dataset(name, X=frames.reshape(n, -1).astype(np.float32), columns=tuple(columns), source={"name": name})
