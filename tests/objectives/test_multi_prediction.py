"""Multi-prediction training: unrolled mean field against numbers, finite differences, deletion and enumeration."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.datasets import load_iris

import gnomon
from gnomon.distributions.joined import JoinedUnits
from gnomon.distributions.units import BernoulliUnits, CategoricalUnits, IsingUnits, ScaledGaussianUnits
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.variational.unrolled import unrolled
from gnomon.numeric.noise import Noise
from gnomon.objectives.centered import Centered
from gnomon.objectives.multi_prediction import MultiPrediction, predicted
from gnomon.systems.energy._convolutional import ConvolutionalModel, Maps
from gnomon.systems.energy.dbm import DBMModel
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBMModel
from oracles.binary import Joint, all_states, rbm_energy
from oracles.layered import by_differences, filled
from oracles.principles import begun, bits, loss_of

T1 = (np.array([[1.0, -1.0], [0.5, 2.0]]), np.array([0.1, -0.2]), np.array([0.3, -0.4]))


def deep(sizes=(4, 3, 2), seed=0, scale=0.8):
    return filled(DBMModel(sizes[0], sizes[1:], torch.float64), seed, scale)


def tensor(x):
    return torch.as_tensor(np.asarray(x, np.float64))


# --- the unrolled graph -----------------------------------------------------------------------------------------------


def contraction(seed=0, n=4):
    random = np.random.default_rng(seed)
    A, b = tensor(0.3 * random.normal(size=(n, n))).requires_grad_(), tensor(random.normal(size=n)).requires_grad_()
    return A, b, tensor(random.normal(size=n))


@pytest.mark.spec("GEN-033")
def test_the_gradient_of_many_rounds_is_the_implicit_one_of_the_fixed_point():
    """q = tanh(A q + b): (I - df/dq)^-1 df/dtheta by linear algebra; of few rounds it is not."""
    A, b, u = contraction()

    def slopes(steps):
        start = {"q": torch.zeros(4, dtype=torch.float64)}
        q = unrolled(lambda now: {"q": torch.tanh(A @ now["q"] + b)}, start, steps)["q"]
        return q.detach().numpy(), [g.numpy() for g in torch.autograd.grad(u @ q, [A, b])]

    q, (by_matrix, by_shift) = slopes(200)
    inner = 1 - np.tanh(A.detach().numpy() @ q + b.detach().numpy()) ** 2
    jacobian = inner[:, None] * A.detach().numpy()
    adjoint = np.linalg.solve(np.eye(4) - jacobian.T, u.numpy()) * inner
    np.testing.assert_allclose(by_shift, adjoint, atol=1e-12)
    np.testing.assert_allclose(by_matrix, np.outer(adjoint, q), atol=1e-12)
    assert np.abs(slopes(2)[1][1] - adjoint).max() > 1e-2


@pytest.mark.spec("GEN-033")
def test_the_gradient_of_every_number_of_rounds_is_that_of_finite_differences_also_where_they_oscillate():
    """Of parameters and of the start; a steep map with a cycle of two has the gradient of where it was stopped."""
    for steps, factor in ((0, 1.0), (1, 1.0), (5, 1.0), (7, -9.0), (8, -9.0)):

        def value(theta, steps=steps, factor=factor):
            start, shift = theta
            return unrolled(lambda now: {"q": torch.sigmoid(factor * (now["q"] - 0.5) + shift)}, {"q": start}, steps)[
                "q"
            ]

        theta = tensor([0.8, 0.1]).requires_grad_()
        (found,) = torch.autograd.grad(value(theta), theta)
        at = theta.detach()
        numbers = [(value(at + h) - value(at - h)).item() / 2e-5 for h in 1e-5 * torch.eye(2, dtype=torch.float64)]
        np.testing.assert_allclose(found, numbers, atol=1e-6)
    ends = [float(value(tensor([0.8, 0.0]), steps, -9.0)) for steps in (500, 501)]
    assert abs(ends[0] - ends[1]) > 0.5


@pytest.mark.spec("GEN-033")
def test_recomputing_keeps_the_states_between_rounds_alone_and_changes_no_gradient():
    """Numbers kept for the way back are counted as they are saved; of parameters and rows the same gradient."""
    model, given = deep((6, 5, 4)), torch.as_tensor(bits(6, 6, seed=1) > 0)
    X = tensor(bits(6, 6)).requires_grad_()
    inputs: list[torch.Tensor] = [*model.parameters(), X]
    kept, slopes = {}, {}
    for name, recompute in (("all", False), ("states", True)):
        count = [0]

        def pack(x, count=count):
            count[0] += x.numel()
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            loss = predicted(model, X, given, rounds=40, recompute=recompute).log_prob(X).sum()
        kept[name], slopes[name] = count[0], torch.autograd.grad(loss, inputs)
    assert kept["states"] < kept["all"] / 3
    for one, other in zip(*slopes.values(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    plain, again = (
        loss_of(begun(MultiPrediction(rounds=6, recompute=recompute), model, bits(6, 6)), model, bits(6, 6))
        for recompute in (False, True)
    )
    for name, value in plain.gradients.items():
        np.testing.assert_allclose(again.gradients[name], value, atol=1e-12)


# --- predictions ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-032")
def test_the_rounds_of_t1_in_numbers_their_fixed_point_and_the_exact_conditional():
    model, X, given = RBMModel.of(*T1), tensor([[1.0, 0.0]]), torch.tensor([[True, False]])
    for rounds, number in ((1, 0.734013), (2, 0.778093), (3, 0.785832), (200, 0.787442)):
        assert float(predicted(model, X, given, rounds=rounds).mean[0, 1].detach()) == pytest.approx(number, abs=5e-7)
    joint = Joint(rbm_energy(*T1), (2, 2)).marginal(0)
    assert joint[3] / (joint[2] + joint[3]) == pytest.approx(0.736730, abs=5e-7)
    changed = predicted(model, tensor([[1.0, 1.0]]), given, rounds=3).mean[0, 1]  # what is not given is not seen
    assert float(changed.detach()) == pytest.approx(0.785832, abs=5e-7)


@pytest.mark.spec("GEN-032")
def test_rounds_by_hand_of_two_hidden_layers():
    """The lower hidden layer, the upper one, then the columns that are not given, from 1/2."""
    model, X, given = deep(), bits(5, 4), bits(5, 4, seed=2) > 0
    s = model.state()
    W1, W2 = s["visible_hidden_1_weight"], s["hidden_1_hidden_2_weight"]
    v, h2 = np.where(given, X, 0.5), np.full((5, 2), 0.5)
    for _ in range(4):
        h1 = expit(v @ W1 + h2 @ W2.T + s["hidden_1_bias"])
        h2 = expit(h1 @ W2 + s["hidden_2_bias"])
        last = expit(h1 @ W1.T + s["visible_bias"])
        v = np.where(given, X, last)
    found = predicted(model, tensor(X), torch.as_tensor(given), rounds=4).mean.detach()
    np.testing.assert_allclose(found, last, atol=1e-12)


def drawn(objective, model, X, seed=0):
    """What a batch of these rows is given, and which units stay, drawn as `loss_of` does."""
    stream = Noise(seed, "fit").at(0).rows(np.arange(len(X))).child("multi-prediction")
    return objective._given(model, tensor(X), stream), objective._kept(model, tensor(X), stream)


def machines():
    row = JoinedUnits(BernoulliUnits(2), CategoricalUnits(1, 3))
    mixed = LayeredMachine(
        {"visible": row, "h": BernoulliUnits(3), "top": IsingUnits(2)},
        [("visible", "h"), ("h", "top")], dtype=torch.float64,
    )  # fmt: skip
    real = LayeredMachine(
        {"visible": ScaledGaussianUnits(3), "h": BernoulliUnits(2)}, [("visible", "h")], dtype=torch.float64
    )
    loop = LayeredMachine(
        {"visible": IsingUnits(3), "x": BernoulliUnits(2), "y": BernoulliUnits(2)},
        [("visible", "x"), ("x", "y"), ("y", "visible")], dtype=torch.float64,
    )  # fmt: skip
    maps = [Maps(2, (1, 1), pooling="deterministic", region=(1, 2)), Maps(1, (1, 1))]
    pooled = ConvolutionalModel((1, 4, 1), maps, torch.float64)
    classes = np.concatenate([bits(4, 2), np.eye(3)[[0, 2, 1, 1]]], axis=1)
    numbers = np.random.default_rng(0).normal(size=(4, 3))
    return {
        "rbm": (RBMModel.of(*T1), bits(4, 2)), "deep": (deep((3, 3, 2, 2)), bits(4, 3)),
        "mixed": (filled(mixed), classes), "real": (filled(real), numbers), "loop": (filled(loop), 2 * bits(4, 3) - 1),
        "pooled": (filled(pooled), bits(4, 4)),
    }  # fmt: skip


@pytest.mark.spec("GEN-032", "GEN-033", "GEN-035")
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("kind", ["rbm", "deep", "mixed", "real", "loop", "pooled"])
def test_the_gradient_through_all_rounds_is_that_of_finite_differences(kind, dropout):
    """Of every parameter, with weights of rows, for units of every kind; the masks stay while the parameters move."""
    model, X = machines()[kind]
    weight = np.array([0.5, 2.0, 1.0, 0.0])
    objective = begun(MultiPrediction(rounds=3, dropout=dropout, given=0.4), model, X)
    loss = loss_of(objective, model, X, weight=weight)

    def value(_):
        return loss_of(objective, model, X, weight=weight).terms["prediction_loss"].sum

    expected = by_differences(model, value)
    assert set(loss.gradients) == set(expected)
    for name, slope in expected.items():
        np.testing.assert_allclose(loss.gradients[name], slope, atol=2e-7, err_msg=name)
    assert max(np.abs(slope).max() for slope in expected.values()) > 1e-2


@pytest.mark.spec("GEN-032")
def test_the_loss_is_that_of_the_columns_that_are_not_given():
    """By hand from the masks: units of several columns are given as one, and of no row everything is given."""
    model, X = machines()["mixed"]
    X = np.tile(X, (500, 1))
    objective = begun(MultiPrediction(rounds=2, given=0.7), model, X)
    given, _ = drawn(objective, model, X)
    assert (given[:, 2:].all(1) | ~given[:, 2:].any(1)).all()  # the class is given as a whole or not at all
    units = given[:, :3].numpy()
    assert not units.all(1).any() and (~units).all(1).any()
    share, n = 0.7 * 2 / 3, len(X)  # one of three is always asked
    assert abs(units.mean(0) - share).max() < 4.5 * np.sqrt(share * (1 - share) / n)  # false alarm below 1e-4
    q = predicted(model, tensor(X), given, rounds=2).mean.detach().numpy()
    total = 0.0
    for row, known, p in zip(X, given.numpy(), q, strict=True):
        total -= sum(np.log(p[i] if row[i] else 1 - p[i]) for i in (0, 1) if not known[i])
        total -= 0.0 if known[2] else np.log(p[2:] @ row[2:])
    loss = loss_of(objective, model, X)
    assert loss.terms["prediction_loss"].sum == pytest.approx(total, rel=1e-10)
    assert loss.terms["prediction_loss"].weight == n


@pytest.mark.spec("GEN-032")
def test_certain_predictions_have_finite_losses_and_gradients():
    model = RBMModel.of(400 * T1[0], 400 * T1[1], 400 * T1[2])
    loss = loss_of(begun(MultiPrediction(), model, all_states(2)), model, all_states(2))
    assert np.isfinite(loss.terms["prediction_loss"].sum)
    assert all(np.isfinite(value).all() for value in loss.gradients.values())


# --- units that are left out ------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-035")
def test_a_unit_that_is_left_out_is_a_machine_without_its_row_and_column():
    """Row by row: the machine of the units that stay, its couplings 1 / (1 - dropout) times those of the whole."""
    p, model, X = 0.4, deep((4, 3, 3)), bits(30, 4)
    objective = begun(MultiPrediction(rounds=3, dropout=p), model, X)
    given, keep = drawn(objective, model, X)
    s, total, smaller = model.state(), 0.0, 0
    for i in range(len(X)):
        stay = {block: np.flatnonzero(keep[block][i].numpy()) for block in model.layers}
        for block in model.layers:
            assert set(np.unique(keep[block][i])) <= {0.0, 1 / (1 - p)}
        if not all(len(units) for units in stay.values()):
            continue
        part = DBMModel(len(stay["visible"]), [len(stay[b]) for b in model.hidden], torch.float64)
        pairs = zip(model.links, part.links, strict=True)
        values = {mine.names["weight"]: s[link.names["weight"]][np.ix_(*(stay[end] for end in link.ends))] / (1 - p)
                  for link, mine in pairs}  # fmt: skip
        part.load(values | {f"{block}_bias": s[f"{block}_bias"][stay[block]] for block in model.layers})
        v = stay["visible"]
        mine = given[i : i + 1, v]
        alone = predicted(part, tensor(X[i : i + 1, v]), mine, rounds=3).mean.detach().numpy()
        whole = (
            predicted(
                model, tensor(X[i : i + 1]), given[i : i + 1], rounds=3, keep={b: k[i : i + 1] for b, k in keep.items()}
            )
            .mean.detach()
            .numpy()
        )
        np.testing.assert_allclose(whole[:, v], alone, atol=1e-12)
        x = X[i, v]
        total -= ((x * np.log(alone) + (1 - x) * np.log(1 - alone))[~mine.numpy()]).sum()
        smaller += 1
    assert smaller > 15
    whole_rows = np.array([all((keep[b][i] > 0).any() for b in model.layers) for i in range(len(X))], float)
    loss = loss_of(objective, model, X, weight=whole_rows)
    assert loss.terms["prediction_loss"].sum == pytest.approx(total, rel=1e-10)


@pytest.mark.spec("GEN-035")
def test_of_pooled_units_a_whole_region_is_left_out_or_none_of_it():
    """Two maps of 2 x 4 in regions of 2 x 2, their columns counted out; 4,000 rows, false alarm below 1e-3."""
    layer, n = Maps(2, (1, 1), pooling="probabilistic", region=(2, 2)), 4_000
    model, X = ConvolutionalModel((2, 4, 1), [layer], torch.float64), bits(4_000, 8)
    _, keep = drawn(begun(MultiPrediction(dropout=0.3), model, X), model, X)
    stays = (keep["hidden"] > 0).numpy()
    assert stays.shape == (n, 16 + 4)
    regions = []
    for number, (across, k) in enumerate((across, k) for across in (0, 1) for k in (0, 1)):
        detectors = [(row * 4 + column) * 2 + k for row in (0, 1) for column in (2 * across, 2 * across + 1)]
        columns = stays[:, [*detectors, 16 + number]]
        assert (columns == columns[:, :1]).all()
        regions.append(columns[:, 0])
    assert (abs(np.mean(regions, axis=1) - 0.7) < 4 * np.sqrt(0.21 / n)).all()
    assert np.abs(np.corrcoef(regions) - np.eye(4)).max() < 4 / np.sqrt(n)


@pytest.mark.spec("GEN-035")
def test_without_dropout_nothing_changes_and_with_it_the_shares_are_as_said():
    """p = 0 to the bit the plain objective; else of 3,000 x 9 units the share that stays, false alarm 1e-4."""
    model, X = deep(), bits(3_000, 4)
    plain, none = (
        loss_of(begun(recipe, model, X), model, X) for recipe in (MultiPrediction(), MultiPrediction(dropout=0))
    )
    assert plain.terms["prediction_loss"].sum == none.terms["prediction_loss"].sum
    for name, value in plain.gradients.items():
        np.testing.assert_array_equal(value, none.gradients[name])
    given, keep = drawn(begun(MultiPrediction(dropout=0.3), model, X), model, X)
    for block, size in model.sizes.items():
        assert abs((keep[block] > 0).double().mean() - 0.7) < 4 * np.sqrt(0.21 / (3_000 * size))
        means = keep[block].mean(0)  # so that the machine is asked as it is: what neighbors see is right in the mean
        assert (abs(means - 1) < 4.5 * np.sqrt(0.3 / 0.7 / 3_000)).all()
    seen = np.concatenate([k.numpy() > 0 for k in keep.values()] + [given.numpy()], axis=1).astype(float)
    correlations = np.corrcoef(seen.T) - np.eye(seen.shape[1])
    assert np.abs(correlations[:9, :9]).max() < 4.5 / np.sqrt(3_000)  # of 36 pairs; false alarm 3e-4


# --- fits -------------------------------------------------------------------------------------------------------------


def told(p, X, gaps):
    """Mean log-probability of what was there in each hidden cell."""
    p, x = np.clip(np.broadcast_to(p, X.shape)[gaps], 1e-6, 1 - 1e-6), X[gaps]
    return float((x * np.log(p) + (1 - x) * np.log(1 - p)).mean())


@pytest.mark.spec("GEN-032")
def test_a_deep_machine_learns_to_fill_in():
    """Three patterns of eight bits, each flipped with a chance of 0.1: most of the way from means to the law."""
    random = np.random.default_rng(0)
    patterns = np.array([[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]], float)
    rows = np.abs(patterns[random.integers(0, 3, 900)] - (random.random((900, 8)) < 0.1))
    states = all_states(8)
    law = sum(np.where(states == one, 0.9, 0.1).prod(1) for one in patterns) / 3
    train, test, gaps = rows[:600], rows[600:], random.random((300, 8)) < 0.5
    best = np.zeros(test.shape)
    for i, (row, gap) in enumerate(zip(test, gaps, strict=True)):
        fits = law * (states[:, ~gap] == row[~gap]).all(1)
        best[i] = fits @ states / fits.sum()
    limit, alone = told(best, test, gaps), told(train.mean(0), test, gaps)
    options = {"epochs": 40, "batch_size": 50, "learning_rate": 0.5, "pretrain_epochs": 0}
    machine = gnomon.DBM(hidden=(6, 4), objective="multi-prediction", random_state=0, **options).fit(train)
    filled_in = machine.impute(np.where(gaps, np.nan, test), method="mean_field")
    assert alone + 0.7 * (limit - alone) < told(filled_in, test, gaps) < limit


@pytest.mark.spec("GEN-032")
def test_mean_field_at_the_fixed_point_is_what_the_rounds_tend_to():
    machine = gnomon.DBM(hidden=(3, 2), objective="multi-prediction", epochs=3, random_state=0, dtype="float64").fit(
        bits(40, 5)
    )
    X = np.array([[1.0, np.nan, 0.0, np.nan, 1.0]])
    found = machine.impute(X, method="mean_field")
    rows, given = tensor(np.nan_to_num(X)), torch.as_tensor(~np.isnan(X))
    many = predicted(machine.model_, rows, given, rounds=500).mean.detach().numpy()
    np.testing.assert_allclose(found[np.isnan(X)], many[np.isnan(X)], atol=1e-6)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rbm", {}), ("gaussian-rbm", {}), ("label-rbm", {"generative": 1.0}), ("dbm", {"hidden": (3, 2)}),
    ],
)  # fmt: skip
def test_systems_take_it_and_centering_goes_around_it(name, options):
    X, y = bits(60, 4), (bits(60, 1)[:, 0]).astype(int)
    arguments = (X, y) if name == "label-rbm" else (X,)
    for objective in ("multi-prediction", Centered("multi-prediction")):
        machine = gnomon.make(name, objective=objective, epochs=2, random_state=0, **options).fit(*arguments)
        assert np.isfinite(machine.history_["prediction_loss"]).all()


@pytest.mark.parametrize("name", ["boltzmann-machine", "semi-restricted-rbm", "mcrbm", "spike-and-slab-rbm"])
def test_what_it_cannot_train_is_refused_in_one_line(name):
    with pytest.raises(UserTypeError, match=r"multi_prediction (infers whole layers|needs units)"):
        gnomon.make(name, objective="multi-prediction", epochs=1, random_state=0).fit(bits(60, 4))


@pytest.mark.spec("GEN-032")
def test_the_class_is_one_of_the_things_that_are_predicted():
    """Iris: with half of the cells missing right by mean field in more than 7 of 10 rows, with all cells in 8."""
    X, y = load_iris(return_X_y=True)
    options = {"n_hidden": 12, "discriminative": 0.0, "generative": 1.0, "epochs": 40, "learning_rate": 0.03}
    machine = gnomon.make("label-rbm", objective="multi-prediction", random_state=0, **options).fit(X, y)
    assert machine.score(X, y) > 0.8
    gaps = np.random.default_rng(0).random(X.shape) < 0.5
    found = machine.predict_observed(X, gaps, method="mean_field")
    assert np.mean(found == y) > 0.7
    np.testing.assert_array_equal(machine.predict_observed(np.where(gaps, np.nan, X), method="mean_field"), found)
    with pytest.raises(UserValueError, match="method must be one of auto, exact, mean_field, gibbs"):
        machine.predict_observed(X, gaps, method="guess")
