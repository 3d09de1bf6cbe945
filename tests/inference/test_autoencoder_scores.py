"""The score of an autoencoder against the energy of its tied form, its losses, and fields that turn."""

import numpy as np
import pytest
import torch
from scipy.special import expit

from gnomon.data.batches import Batch
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.autoencoder_scores import score_from_autoencoder
from gnomon.inference.scores import scores_of
from gnomon.numeric.noise import Noise
from gnomon.objectives.denoising_score_matching import DenoisingScoreMatching
from gnomon.systems.energy.gaussian_rbm import GaussianRBM, GaussianRBMModel
from gnomon.training.group import Group
from oracles.given_noise import GivenNoise

RANDOM = np.random.default_rng(0)
W, B, C = RANDOM.normal(size=(4, 3)), RANDOM.normal(size=3), RANDOM.normal(size=4)
ROWS, Z = RANDOM.normal(size=(2, 9, 4))


def tied(x):
    return C + expit(B + x @ W) @ W.T


class Energy(torch.nn.Module):
    """(|x|^2 / 2 - c'x - sum softplus(b + W'x)) / sigma^2."""

    def __init__(self, sigma):
        super().__init__()
        self.W, self.B, self.C = (torch.nn.Parameter(torch.from_numpy(value)) for value in (W, B, C))
        self.sigma = sigma

    def energy(self, x):
        folded = torch.nn.functional.softplus(self.B + x @ self.W, threshold=40).sum(-1)
        return (0.5 * (x * x).sum(-1) - x @ self.C - folded) / self.sigma**2

    def place(self, x):
        return np.asarray(x, np.float64)


@pytest.mark.spec("INF-54")
@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.0])
def test_of_tied_weights_it_is_the_score_of_the_matching_energy_and_the_losses_are_in_proportion(sigma):
    score = score_from_autoencoder(tied, sigma)
    np.testing.assert_allclose(score.value(ROWS), scores_of(Energy(sigma), ROWS).value, atol=1e-10)
    noisy = ROWS + sigma * Z
    batch = Batch({"X": ROWS}, np.arange(9), np.arange(9), np.ones(9))
    matching = DenoisingScoreMatching(sigma=sigma).build()
    loss = matching(Energy(sigma), batch, noise=GivenNoise(Z), phase="fit", group=Group())
    squared = ((tied(noisy) - ROWS) ** 2).sum()
    assert loss.terms["denoising_score_matching"].sum == pytest.approx(squared / (2 * sigma**4), rel=1e-10)
    # and so is every row by itself, whatever the autoencoder
    away = score.value(noisy) - (ROWS - noisy) / sigma**2
    np.testing.assert_allclose(0.5 * (away**2).sum(1), ((tied(noisy) - ROWS) ** 2).sum(1) / (2 * sigma**4), rtol=1e-10)


@pytest.mark.spec("INF-54")
def test_a_machine_of_real_and_binary_units_is_such_an_autoencoder():
    """Of unit variances the energies are the same: its reconstruction from hidden means, its score."""
    system = GaussianRBM(n_hidden=3, epochs=1, random_state=0, dtype="float64", standardize=False).fit(ROWS)
    system.model_ = GaussianRBMModel.of(W, C, B)
    np.testing.assert_allclose(system.reconstruct(ROWS), tied(ROWS), atol=1e-12)
    score = score_from_autoencoder(system, 1.0)
    np.testing.assert_allclose(score.value(ROWS), system.model_.scores(ROWS).value, atol=1e-10)
    np.testing.assert_allclose(score.asymmetry(ROWS), 0, atol=1e-8)


@pytest.mark.spec("INF-54")
def test_the_best_autoencoder_of_normal_rows_has_the_score_of_the_wider_density():
    """Rows N(0, 2), noise of variance .25: r(x) = x 2 / 2.25 is least squares, the score -x / 2.25."""
    n = 200_000
    x = np.sqrt(2) * Noise(0, "x").rows(np.arange(n)).normal((n, 1), like=np.zeros(0))
    noisy = x + 0.5 * Noise(0, "z").rows(np.arange(n)).normal((n, 1), like=np.zeros(0))
    slope = float((noisy * x).sum() / (noisy * noisy).sum())
    score = score_from_autoencoder(lambda rows: slope * rows, 0.5)
    # standard error of slope / .25 about 4 sqrt(.2222 / 2.25 / n) = .0028: within five of these
    assert score.value(np.ones((1, 1)))[0, 0] == pytest.approx(-1 / 2.25, abs=0.014)


@pytest.mark.spec("INF-54")
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_decoders_of_their_own_turn_the_field(kind):
    other = RANDOM.normal(size=(4, 3))

    def untied(x):
        if isinstance(x, torch.Tensor):
            return torch.from_numpy(untied(x.numpy()))
        return C + expit(B + x @ W) @ other.T

    def by_definition(x):
        s = expit(B + x @ W)
        J = other @ np.diag(s * (1 - s)) @ W.T
        return np.linalg.norm(J - J.T) / (2 * np.linalg.norm(J))

    found = score_from_autoencoder(untied, 0.5).asymmetry(kind(ROWS.copy()))
    np.testing.assert_allclose(found, [by_definition(x) for x in ROWS], rtol=1e-6)
    assert (found > 0.1).all()
    np.testing.assert_allclose(score_from_autoencoder(tied, 0.5).asymmetry(ROWS), 0, atol=1e-9)
    turn = score_from_autoencoder(lambda x: x @ np.array([[0.0, 1.0], [-1.0, 0.0]]), 1.0)
    np.testing.assert_allclose(turn.asymmetry(ROWS[:, :2]), 1, rtol=1e-9)


@pytest.mark.spec("INF-54")
def test_what_does_not_reconstruct_is_refused():
    with pytest.raises(UserTypeError, match="autoencoder must be a system with reconstruct, or a function"):
        score_from_autoencoder(3, 0.5)
    with pytest.raises(UserValueError, match="sigma must be above 0, got 0"):
        score_from_autoencoder(tied, 0.0)
    with pytest.raises(UserValueError, match=r"autoencoder must answer rows of the shape \(9, 4\), got \(9, 2\)"):
        score_from_autoencoder(lambda x: x[:, :2], 0.5).value(ROWS)


def test_rows_of_whole_numbers_and_lists_are_rows():
    turn = score_from_autoencoder(lambda x: x @ np.array([[0.0, 1.0], [-1.0, 0.0]]), 0.5)
    assert turn.asymmetry(np.array([[0, 0], [1, 0]])) == pytest.approx([1, 1])
    assert turn.value([[1.0, 2.0]]) == pytest.approx(np.array([[-12.0, -4.0]]))
    for sigma in (0, -1.0, np.inf, np.nan, "a"):
        with pytest.raises(UserValueError, match=r"sigma must be (above 0|finite)"):
            score_from_autoencoder(lambda x: x, sigma)
