"""The affine generator x = m + L z: factor, density and draws against torch; jitter; what is refused."""

import numpy as np
import pytest
import torch

from gnomon.distributions.vectors import MultivariateNormal
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise


@pytest.mark.spec("GEN-081")
def test_the_factor_and_the_density_are_those_of_the_specification():
    pair = MultivariateNormal([0.0, 0.0], [[2.0, 1.0], [1.0, 2.0]])
    np.testing.assert_allclose(pair.factor, [[1.414214, 0.0], [0.707107, 1.224745]], atol=5e-7)
    assert pair.log_prob([1.0, -1.0]) == pytest.approx(-3.387183, abs=5e-7)


@pytest.mark.spec("GEN-081")
@pytest.mark.parametrize("jitter", [0.0, 0.3])
def test_densities_and_draws_are_those_of_torch(jitter):
    """Draws are m + L z of the same z to the last bits; 40,000 of them have mean and covariance, false alarm 1e-4."""
    random = np.random.default_rng(0)
    root, loc = random.normal(size=(3, 3)), np.array([1.0, -2.0, 0.5])
    C = root @ root.T
    mine = MultivariateNormal(loc, C, jitter=jitter)
    total = C + jitter * np.eye(3)
    peer = torch.distributions.MultivariateNormal(torch.tensor(loc), torch.tensor(total))
    x = random.normal(size=(50, 3)) * 3
    np.testing.assert_allclose(mine.log_prob(x), peer.log_prob(torch.tensor(x)).numpy(), rtol=1e-12)
    np.testing.assert_allclose(mine.factor, peer.scale_tril.numpy(), rtol=1e-12)
    np.testing.assert_allclose(mine.covariance, total, rtol=1e-12)
    z = mine.base_noise(Noise(0, "draws"), shape=(40_000,))
    drawn = mine.sample(Noise(0, "draws"), shape=(40_000,))
    np.testing.assert_allclose(drawn, loc + z.numpy() @ np.linalg.cholesky(total).T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mine.transform(z).numpy(), drawn, rtol=1e-12, atol=1e-12)
    deviation = np.sqrt(np.diag(total))
    assert (np.abs(drawn.mean(0) - loc) <= 4.5 * deviation / 200).all()
    error = np.sqrt((total**2 + np.outer(np.diag(total), np.diag(total))) / 40_000)
    assert (np.abs(np.cov(drawn.T) - total) <= 4.5 * error).all()


@pytest.mark.spec("GEN-081")
def test_gradients_reach_a_covariance_that_was_given_as_a_tensor():
    C = torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    z = torch.tensor([[0.3, -0.7]], dtype=torch.float64)
    (slope,) = torch.autograd.grad(MultivariateNormal([0.0, 0.0], C, jitter=0.1).transform(z).sum(), C)
    step = 1e-6 * torch.tensor([[1.0, 0.5], [0.5, 0.0]], dtype=torch.float64)

    def total(matrix):
        return MultivariateNormal([0.0, 0.0], matrix, jitter=0.1).transform(z).sum()

    moved = (total(C.detach() + step) - total(C.detach() - step)) / 2e-6
    assert (slope * step / 1e-6).sum() == pytest.approx(float(moved), rel=1e-6)


@pytest.mark.spec("GEN-081")
def test_what_is_no_covariance_is_refused_and_jitter_is_only_what_was_asked_for():
    with pytest.raises(UserValueError, match=r"covariance must be positive definite, got the eigenvalue -1"):
        MultivariateNormal([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(UserValueError, match=r"positive definite, got the eigenvalue -0\.5"):
        MultivariateNormal([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], jitter=0.5)
    with pytest.raises(UserValueError, match="positive definite"):
        MultivariateNormal([0.0, 0.0], [[1.0, 0.0], [0.0, 0.0]])  # singular: nothing is added unasked
    found = MultivariateNormal([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]], jitter=1e-6)
    np.testing.assert_allclose(found.covariance, [[1 + 1e-6, 1.0], [1.0, 1 + 1e-6]], rtol=1e-15)
    assert found.jitter == 1e-6
    for jitter in (-1.0, np.inf, np.nan):  # NaN is no number
        with pytest.raises(UserValueError, match=r"jitter must be (at least 0 and finite|a number)"):
            MultivariateNormal([0.0], [[1.0]], jitter=jitter)
