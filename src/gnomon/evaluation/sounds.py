"""Sounds as files: what a model made of a waveform, to be listened to."""

from __future__ import annotations

import io
import os
import wave
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from gnomon.errors import UserValueError
from gnomon.runs.atomic import write_atomically

__all__ = ["save_wav"]

STEP = 1 / 32768
"""Between two amplitudes of 16 bits."""


def save_wav(path: str | os.PathLike[str], x: ArrayLike, rate: int) -> None:
    """Write a waveform as a WAV file of 16-bit samples; the file appears whole or not at all.

    Parameters
    ----------
    path : path
        Ends in ``.wav``; a file of that name is replaced.
    x : array of shape (n,) or (n, channels)
        Amplitudes in [-1, 1]; n at least 1. Each goes to the nearest of 65,536 steps of 1/32768, and 1 itself to the
        last one, so that what is read again is at most one step away, half a step but at 1.
    rate : int in [1, 2^31), Hz
        Samples per second.

    Raises
    ------
    UserValueError
        An amplitude beyond [-1, 1], which would be cut off, or one that is not finite, with its place; a rate or an
        ending that WAV has not.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_wav(f"{folder}/a.wav", [0.0, 0.5, -1.0], 8000)
    ...     with wave.open(f"{folder}/a.wav") as file:
    ...         np.frombuffer(file.readframes(3), "<i2").tolist()
    [0, 16384, -32768]
    """
    if Path(path).suffix.lower() != ".wav":
        raise UserValueError(f"the file must end in .wav, got {path}", "path")
    sound = np.asarray(x, np.float64)
    if sound.ndim not in (1, 2) or not sound.size:
        raise UserValueError.must("x", "be (n,) or (n, channels) with at least one sample", sound)
    wrong = ~(np.abs(sound) <= 1)
    if wrong.any():
        place = np.unravel_index(int(wrong.argmax()), sound.shape)
        raise UserValueError.must("x", "be in [-1, 1]", sound[place], f"sample {place[0]}", "divide by the largest")
    if not 1 <= rate < 1 << 31:
        raise UserValueError.must("rate", "be in [1, 2^31) Hz", rate)
    steps = np.minimum(np.rint(sound / STEP), 32767).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1 if sound.ndim == 1 else sound.shape[1])
        file.setsampwidth(2)
        file.setframerate(int(rate))
        file.writeframes(steps.tobytes())
    write_atomically(Path(path), buffer.getvalue())
