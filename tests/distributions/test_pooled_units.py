"""Pooling units of energy machines against enumeration of all states of detectors, and the numbers of the rows."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax
from scipy.stats import chi2

from gnomon.distributions.pooled_units import DeterministicMaxUnits, ProbabilisticMaxUnits
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise

FOUR = np.array([0.0, 1.0, -1.0, 2.0])
KINDS = [
    pytest.param(DeterministicMaxUnits, marks=pytest.mark.spec("GEN-051")),
    pytest.param(ProbabilisticMaxUnits, marks=pytest.mark.spec("GEN-053")),
]
SHAPES = [(1, 2, 2, 2, 2), (2, 2, 4, 2, 2), (1, 3, 3, 3, 3), (2, 1, 4, 1, 2), (3, 1, 2, 1, 1)]


def regions_of(maps, rows, columns, height, width):
    """The columns of the detectors of each region, in the order of the pooling units, by counting alone."""
    number = np.arange(rows * columns * maps).reshape(rows, columns, maps)
    return [
        number[down : down + height, across : across + width, k].ravel()
        for down in range(0, rows, height)
        for across in range(0, columns, width)
        for k in range(maps)
    ]


def table(kind, shape, detectors, top):
    """Every state [d, p] that the kind lets be with its log weight, by going through all that detectors can be."""
    found = []
    regions = regions_of(*shape)
    for d in itertools.product([0.0, 1.0], repeat=len(detectors)):
        on = [sum(d[i] for i in region) for region in regions]
        if kind is ProbabilisticMaxUnits and max(on) > 1:
            continue
        p = [float(n > 0) for n in on]
        found.append((np.array([*d, *p]), float(np.dot(d, detectors) + np.dot(p, top))))
    return np.array([state for state, _ in found]), np.array([weight for _, weight in found])


def drawn_fields(shape, n=3, seed=0):
    random = np.random.default_rng(seed)
    units = ProbabilisticMaxUnits(*shape)
    return random.normal(size=(n, units.size)) * 1.5, random.normal(size=units.detectors)


@pytest.mark.parametrize("shape", SHAPES[:1] + SHAPES[2:])
@pytest.mark.parametrize("kind", KINDS)
def test_normalizer_means_log_prob_and_entropy_are_those_of_the_table(kind, shape):
    units, (field, bias) = kind(*shape), drawn_fields(shape)
    own, n = {"bias": bias}, units.detectors
    found = units.conditional(field.copy(), own)
    log_z = units.log_normalizer(field.copy(), own)
    for row in range(len(field)):
        states, weight = table(kind, shape, field[row, :n] + bias, field[row, n:])
        log_p = weight - logsumexp(weight)
        p = np.exp(log_p)
        assert log_z[row] == pytest.approx(logsumexp(weight), abs=1e-12)
        np.testing.assert_allclose(found.mean[row], p @ states, atol=1e-12)
        np.testing.assert_allclose(found.variance[row], p @ states**2 - (p @ states) ** 2, atol=1e-12)
        assert found.entropy()[row] == pytest.approx(-p @ log_p, abs=1e-12)
        one = units.conditional(np.repeat(field[row : row + 1], len(states), 0), own)
        np.testing.assert_allclose(one.log_prob(states), log_p, atol=1e-12)
        np.testing.assert_allclose(units.log_weight(states, own), states[:, :n] @ bias, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_states_are_counted_once_each_and_no_others_have_a_weight(kind, shape):
    units = kind(*shape)
    if units.n_states > 4096:
        pytest.skip("a table of 65,536 states says no more")
    states = units.states(np.arange(units.n_states))
    expected, _ = table(kind, shape, np.zeros(units.detectors), np.zeros(units.regions))
    assert sorted(map(tuple, states)) == sorted(map(tuple, expected))
    own = {"bias": np.zeros(units.detectors)}
    np.testing.assert_allclose(units.log_weight(states, own), 0)
    np.testing.assert_allclose(states.mean(0), units.center, atol=1e-12)
    if units.size > 12:
        return
    every = np.array(list(itertools.product([0.0, 1.0], repeat=units.size)))
    possible = np.isfinite(units.log_weight(every, own))
    assert set(map(tuple, every[possible])) == set(map(tuple, states))
    np.testing.assert_array_equal(
        np.isfinite(units.conditional(np.zeros((len(every), units.size)), own).log_prob(every)), possible
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_columns_of_a_region_are_one_unit(kind, shape):
    units = kind(*shape)
    found = units.unit_of_column
    assert found.shape == (units.size,)
    for number, columns in enumerate(regions_of(*shape)):
        np.testing.assert_array_equal(np.flatnonzero(found == number), [*sorted(columns), units.detectors + number])


@pytest.mark.parametrize("torch_too", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_draws_come_as_often_as_the_table_says(kind, torch_too):
    """Chi-square of 20,000 draws of two regions of two over all states: one false alarm in 10^6."""
    shape = (2, 1, 2, 1, 2)
    units, n = kind(*shape), 20000
    field = np.tile([0.5, -1.0, 1.0, 0.3, -0.4, 0.8], (n, 1))
    own = {"bias": np.array([0.2, -0.3, 0.1, 0.4])}
    states, weight = table(kind, shape, field[0, :4] + own["bias"], field[0, 4:])
    noise = Noise(3, "draws").rows(np.arange(n))
    if torch_too:
        drawn = (
            units.conditional(torch.from_numpy(field), {"bias": torch.from_numpy(own["bias"])}).sample(noise).numpy()
        )
    else:
        drawn = units.conditional(field, own).sample(noise)
    expected = n * softmax(weight)
    counts = np.array([(drawn == state).all(1).sum() for state in states])
    assert counts.sum() == n
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-6, len(states) - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_give_the_numbers_of_arrays_and_gradients_the_means(kind):
    shape = (2, 2, 4, 2, 2)
    units, (field, bias) = kind(*shape), drawn_fields(shape)
    x = torch.from_numpy(field).requires_grad_()
    own = {"bias": torch.from_numpy(bias)}
    total = units.log_normalizer(x, own)
    np.testing.assert_allclose(total.detach().numpy(), units.log_normalizer(field.copy(), {"bias": bias}), atol=1e-12)
    (slope,) = torch.autograd.grad(total.sum(), x)
    found = units.conditional(x, own)
    np.testing.assert_allclose(slope.numpy(), found.mean.detach().numpy(), atol=1e-12)  # dA / df = E[x]
    np.testing.assert_allclose(
        found.entropy().detach().numpy(), units.conditional(field.copy(), {"bias": bias}).entropy(), atol=1e-12
    )


@pytest.mark.spec("GEN-053")
def test_the_numbers_of_probabilistic_max_pooling():
    units, own = ProbabilisticMaxUnits(1, 2, 2, 2, 2), {"bias": np.zeros(4)}
    mean = units.conditional(np.append(FOUR, 0.0)[None], own).mean[0]
    np.testing.assert_allclose(mean[:4], (0.080159, 0.217895, 0.029489, 0.592299), atol=5e-7)
    assert 1 - mean[4] == pytest.approx(0.080159, abs=5e-7)
    np.testing.assert_allclose(np.append(1 - mean[4], mean[:4]), softmax(np.append(0.0, FOUR)), atol=1e-12)
    down = units.conditional(np.append(FOUR, 0.7)[None], own).mean[0]  # from above: added to each detector's field
    np.testing.assert_allclose(np.append(1 - down[4], down[:4]), softmax(np.append(0.0, FOUR + 0.7)), atol=1e-12)


@pytest.mark.spec("GEN-053")
def test_a_larger_region_thins_features_and_a_larger_map_with_the_same_region_does_not():
    on = []
    for side, region in ((2, 2), (4, 4), (4, 2)):
        units = ProbabilisticMaxUnits(1, side, side, region, region)
        on.append(units.conditional(np.zeros((1, units.size)), {"bias": np.zeros(side**2)}).mean[0, : side**2].mean())
    np.testing.assert_allclose(on, (1 / 5, 1 / 17, 1 / 5), atol=1e-12)


@pytest.mark.spec("GEN-051")
def test_the_number_of_deterministic_max_pooling_in_closed_form_and_over_512_states():
    units = DeterministicMaxUnits(1, 2, 2, 2, 2)
    one = units.conditional(np.append(FOUR, 0.0)[None], {"bias": np.zeros(4)}).mean[0, 4]
    assert one == pytest.approx(0.988282, abs=5e-7)
    assert one == pytest.approx(1 - 1 / np.prod(1 + np.exp(FOUR)), abs=1e-12)
    nine, own = np.random.default_rng(0).normal(size=9), {"bias": np.zeros(9)}
    for top in (0.0, -3.0, 2.0):  # from above: "all off" against the rest
        states, weight = table(DeterministicMaxUnits, (1, 3, 3, 3, 3), nine, [top])
        assert len(states) == 512
        found = DeterministicMaxUnits(1, 3, 3, 3, 3).conditional(np.append(nine, top)[None], own).mean[0, 9]
        assert found == pytest.approx(softmax(weight) @ states[:, 9], abs=1e-12)
        assert found == pytest.approx(1 - 1 / (1 + np.exp(top) * (np.prod(1 + np.exp(nine)) - 1)), abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_fields_of_any_size_give_finite_means(kind, dtype):
    units = kind(1, 1, 2, 1, 2)
    own = {"bias": np.zeros(2, dtype)}
    field = np.array([[-800, -900, 0], [800, 900, 0], [-800, 0, 900], [-900, -800, 2000], [0, 0, -2000]], dtype)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        mean = units.conditional(field.copy(), own).mean
        drawn = units.conditional(field.copy(), own).sample(Noise(0, "x"))
        assert np.isfinite(units.log_normalizer(field.copy(), own)).all()
    assert np.isfinite(mean).all()
    assert (mean >= 0).all()
    assert (mean <= 1 + 1e-5).all()
    assert np.isfinite(units.log_weight(drawn, own)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_regions_that_do_not_fill_the_maps_are_refused(kind):
    with pytest.raises(UserValueError, match="regions must fill maps of 5 x 4, got 2 x 2"):
        kind(1, 5, 4, 2, 2)
