"""Links of two layers of every kind against dense matrices: products, adjoints, gradients, updates."""

import numpy as np
import pytest
import torch

import gnomon
from gnomon.distributions.units import BernoulliUnits
from gnomon.errors import UserValueError
from gnomon.systems.energy.convolution import ConvolutionalLink
from gnomon.systems.energy.grouped import BlockDiagonalLink, even_groups
from gnomon.systems.energy.harmonium import HarmoniumModel
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink, MaskedLink, ScaledLink
from oracles.binary import numerical_gradient

P, Q = 6, 5
MASK = np.random.default_rng(7).random((P, Q)) < 0.5
BLOCKS = np.zeros((P, Q), bool)
BLOCKS[:3, :2] = BLOCKS[3:4, 2:3] = BLOCKS[4:, 3:] = True
LINKS = {
    "dense": DenseLink("v", "h"),
    "scaled": ScaledLink("v", "h", scale=0.5),
    "masked": MaskedLink("v", "h", MASK),
    "block-diagonal": BlockDiagonalLink("v", "h", (3, 1, 2), (2, 1, 2)),
    "convolutional": ConvolutionalLink("v", "h", (1, P, 1), 1, (1, 2)),
}


def by_hand(kind, w):
    """The dense matrix of a kind from its parameter, entry by entry."""
    M = np.zeros((P, Q))
    if kind in ("dense", "scaled"):
        return (0.5 if kind == "scaled" else 1.0) * w
    if kind == "convolutional":
        for j in range(Q):
            M[j, j], M[j + 1, j] = w[0, 0, 0]
        return M
    chosen = MASK if kind == "masked" else BLOCKS
    order = iter(w[0])
    if kind == "masked":
        for i, j in np.ndindex(P, Q):
            M[i, j] = next(order) if chosen[i, j] else 0.0
        return M
    for rows, columns in ((range(3), range(2)), (range(3, 4), range(2, 3)), (range(4, 6), range(3, 5))):
        for i in rows:
            for j in columns:
                M[i, j] = next(order)
    return M


def drawn(kind, n=4):
    random = np.random.default_rng(1)
    link = LINKS[kind]
    own = {"weight": random.normal(size=link.shapes({"v": P, "h": Q})["weight"])}
    return link, own, random.normal(size=(n, P)), random.normal(size=(n, Q)), random.normal(size=n)


@pytest.mark.spec("REP-157")
@pytest.mark.parametrize("kind", LINKS)
def test_products_are_those_of_the_dense_matrix_and_adjoint(kind):
    link, own, v, h, _ = drawn(kind)
    M = by_hand(kind, own["weight"])
    assert link.matrix(own) == pytest.approx(M, abs=1e-14)
    assert link.field("h", v, own) == pytest.approx(v @ M, abs=1e-12)
    assert link.field("v", h, own) == pytest.approx(h @ M.T, abs=1e-12)
    left, right = (link.field("v", h, own) * v).sum(1), (h * link.field("h", v, own)).sum(1)
    assert left == pytest.approx(right, abs=1e-12)
    assert link.gain({"v": v, "h": h}, own) == pytest.approx(np.einsum("ni,ij,nj->n", v, M, h), abs=1e-12)
    tensors = {name: torch.from_numpy(value) for name, value in own.items()}
    assert link.field("h", torch.from_numpy(v), tensors).numpy() == pytest.approx(v @ M, abs=1e-12)


@pytest.mark.spec("REP-157")
@pytest.mark.parametrize("kind", LINKS)
def test_the_gradient_of_the_form_is_the_masked_outer_product(kind):
    """Against finite differences, and pushed back into a matrix against v h^T where a weight is."""
    link, own, v, h, weight = drawn(kind)
    found = link.statistics(v, h, weight, own)["weight"]
    size = own["weight"].shape

    def form(flat):
        return float(weight @ np.einsum("ni,ij,nj->n", v, by_hand(kind, flat.reshape(size)), h))

    assert found.ravel() == pytest.approx(numerical_gradient(form, own["weight"].ravel()), abs=1e-6)
    outer = (v * weight[:, None]).T @ h
    assert link.pull(outer, own)["weight"] == pytest.approx(found, abs=1e-12)
    if kind in ("dense", "masked", "block-diagonal"):
        chosen = {"dense": np.ones((P, Q), bool), "masked": MASK, "block-diagonal": BLOCKS}[kind]
        assert by_hand(kind, found) == pytest.approx(np.where(chosen, outer, 0.0), abs=1e-12)


@pytest.mark.spec("REP-157")
@pytest.mark.parametrize("kind", ["masked", "block-diagonal"])
def test_no_update_reaches_beyond_the_mask(kind):
    """Steps of the machine's own gradient, with decay: as an optimizer takes them."""
    machine = LayeredMachine({"v": BernoulliUnits(P), "h": BernoulliUnits(Q)}, [LINKS[kind]], dtype=torch.float64)
    chosen = MASK if kind == "masked" else BLOCKS
    assert machine.v_h_weight.numel() == chosen.sum()  # there is no parameter outside of it
    state = {"v": np.ones((3, P)), "h": np.ones((3, Q))}
    for _ in range(3):
        gradient = machine.joint_gradient(state, np.ones(3))["v_h_weight"]
        with torch.no_grad():
            machine.v_h_weight.mul_(0.9).sub_(0.1 * torch.from_numpy(gradient))
    M = machine.links[0].matrix({"weight": machine.v_h_weight.detach()}).numpy()
    assert ((M != 0) == chosen).all()


@pytest.mark.spec("REP-157")
def test_a_harmonium_of_groups_is_a_product_of_harmoniums():
    """log Z and energies of two groups that do not interact add up; one group is the plain machine."""
    random = np.random.default_rng(3)
    model = HarmoniumModel(BernoulliUnits(5), BernoulliUnits(3), torch.float64, groups=2)
    values = {
        "weight": random.normal(size=(1, 8)),
        "visible_bias": random.normal(size=5),
        "hidden_bias": random.normal(size=3),
    }
    model.load(values)
    W, a, b = model.couplings(), values["visible_bias"], values["hidden_bias"]
    assert (W[:3, 2:] == 0).all()
    assert (W[3:, :2] == 0).all()
    parts = [
        HarmoniumModel.of(BernoulliUnits(i.stop - i.start), BernoulliUnits(j.stop - j.start), W[i, j], a[i], b[j])
        for i, j in ((slice(0, 3), slice(0, 2)), (slice(3, 5), slice(2, 3)))
    ]
    assert model.log_partition() == pytest.approx(sum(one.log_partition() for one in parts), abs=1e-10)
    rows = (random.random((6, 5)) < 0.5).astype(float)
    assert model.energy(rows) == pytest.approx(parts[0].energy(rows[:, :3]) + parts[1].energy(rows[:, 3:]), abs=1e-10)
    dense = HarmoniumModel.of(BernoulliUnits(5), BernoulliUnits(3), W, a, b)
    assert model.energy(rows) == pytest.approx(dense.energy(rows), abs=1e-10)


@pytest.mark.spec("REP-157")
def test_a_fitted_harmonium_has_no_coupling_between_groups(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 5))
    machine = gnomon.make("harmonium", n_hidden=4, groups=2, epochs=3, random_state=0).fit(X)
    W = machine.weights_
    assert (W[:3, :2] != 0).all()
    assert not W[:3, 2:].any()
    assert not W[3:, :2].any()
    again = gnomon.load(machine.save(tmp_path / "saved"))
    assert np.array_equal(again.weights_, W)
    pairs = gnomon.make(
        "harmonium", hidden="gaussian", n_hidden=4, groups=2, epochs=3, learning_rate=1.0, random_state=0
    )
    assert (
        np.linalg.svd(pairs.fit(X).weights_)[1].max() <= 0.951
    )  # each group is brought back to where it has a density


def test_categories_stay_in_one_group():
    X = np.random.default_rng(0).poisson(2.0, size=(40, 3))
    machine = gnomon.make("harmonium", visible="poisson", hidden="softmax", n_hidden=2, groups=2, epochs=1).fit(X)
    width = machine.weights_.shape[1] // 2
    assert not machine.weights_[:2, width:].any()
    assert not machine.weights_[2:, :width].any()


def test_groups_that_cannot_be_are_refused():
    with pytest.raises(UserValueError, match="groups must be at most 2"):
        gnomon.make("harmonium", n_hidden=2, groups=3, epochs=1).fit(np.random.default_rng(0).normal(size=(9, 4)))
    with pytest.raises(UserValueError, match="as many of both layers"):
        BlockDiagonalLink("v", "h", (2, 1), (3,))
    with pytest.raises(UserValueError, match="must have 6 units in all, got 5"):
        LayeredMachine({"v": BernoulliUnits(6), "h": BernoulliUnits(2)}, [BlockDiagonalLink("v", "h", (5,), (2,))])
    assert even_groups(7, 3) == [3, 2, 2]
