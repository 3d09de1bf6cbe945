"""WAV files: what is read again, by SciPy and by the standard library, is within a step of what was written."""

import wave

import numpy as np
import pytest
from scipy.io import wavfile

import gnomon
from gnomon.cli.main import run
from gnomon.errors import UserValueError
from gnomon.evaluation import save_wav
from oracles.commands import call


@pytest.mark.spec("PRA-080")
@pytest.mark.parametrize("shape", [(4000,), (500, 2), (1,)])
def test_a_sound_comes_back_within_one_step(tmp_path, shape):
    x = np.random.default_rng(0).uniform(-1, 1, shape)
    x.flat[:1] = 1.0
    x.flat[1:3] = (-1.0, 0.0)[: x.size - 1]
    save_wav(tmp_path / "x.wav", x, 22050)
    rate, found = wavfile.read(tmp_path / "x.wav")
    assert rate == 22050 and found.dtype == np.int16 and found.shape == shape
    error = np.abs(found / 32768 - x)
    assert error.max() <= 1 / 32768 and error[x < 1].max(initial=0) <= 0.5 / 32768
    with wave.open(str(tmp_path / "x.wav")) as file:
        parameters = (file.getnchannels(), file.getsampwidth(), file.getframerate(), file.getnframes())
        assert parameters == ((shape[1:] or (1,))[0], 2, 22050, shape[0])
    assert [one.name for one in tmp_path.iterdir()] == ["x.wav"]


@pytest.mark.parametrize(
    ("path", "x", "rate", "message"),
    [
        ("x.mp3", [0.0], 8000, "must end in .wav"),
        ("x.wav", [], 8000, "at least one sample"),
        ("x.wav", np.zeros((1, 1, 1)), 8000, r"\(n,\) or \(n, channels\)"),
        ("x.wav", [0.0, 1.5], 8000, r"x must be in \[-1, 1\], got 1.5 \(sample 1\); divide by the largest"),
        ("x.wav", [np.nan], 8000, r"must be in \[-1, 1\], got nan"),
        ("x.wav", [0.0], 0, "rate must be in"),
    ],
)
def test_mistakes(tmp_path, path, x, rate, message):
    with pytest.raises(UserValueError, match=message):
        save_wav(tmp_path / path, x, rate)
    assert not list(tmp_path.iterdir())


@pytest.mark.spec("PRA-080")
def test_generated_sound_is_saved(tmp_path, capsys):
    """Rows of a model of windows of a tone, one after the other with a quarter of a second between them."""
    time = np.arange(64) / 800
    windows = np.stack([3 * np.sin(2 * np.pi * (50 * time + phase)) for phase in np.linspace(0, 1, 60)])
    windows += np.random.default_rng(0).normal(0, 0.1, windows.shape)
    np.save(tmp_path / "tone.npy", windows)
    call(capsys, "fit", "ppca", tmp_path / "tone.npy", "--n-components", "2", "--out", tmp_path / "run")
    assert run(["sample", *f"{tmp_path}/run -n 3 --seed 1 --rate 800 --out {tmp_path}/a.wav".split()]) == 0
    rows = gnomon.load(tmp_path / "run").sample(3, random_state=1)
    loudest = np.abs(rows).max()
    assert f"amplitudes are divided by {loudest:.4g}" in capsys.readouterr().err
    rate, found = wavfile.read(tmp_path / "a.wav")
    assert rate == 800 and found.shape == (3 * (64 + 200),)
    parts = found.reshape(3, 264) / 32768
    assert np.abs(parts[:, :64] - rows / loudest).max() <= 1.01 / 32768 and not parts[:, 64:].any()
    for words, message in (
        ("--out b.wav", "a .wav file and --rate must be given together"), ("--rate 8000", "must be given together"),
        ("-n 0 --rate 8 --out b.wav", "only rows of numbers are waveforms"),
    ):  # fmt: skip
        assert run(["sample", f"{tmp_path}/run", *words.split()]) == 2
        assert message in capsys.readouterr().err
