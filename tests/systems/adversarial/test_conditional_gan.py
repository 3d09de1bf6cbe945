"""The conditional adversarial network: rows by class, and its generator as a network with noise inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.utils.checkpoint import checkpoint

import gnomon
from gnomon.data import load
from gnomon.errors import UserError, UserValueError
from gnomon.nn.encoders import DenseDecoder, DenseEncoder
from gnomon.numeric.noise import Noise
from gnomon.objectives.adversarial import NonSaturating
from gnomon.systems.adversarial._model import LabelVectors
from gnomon.systems.adversarial.conditional_gan import ConditionalGAN
from gnomon.tasks.generate import Generate
from gnomon.tasks.suits import suits

CENTERS = {"a": (-4.0, 0.0), "b": (3.0, 3.0), "c": (0.0, -5.0)}
SPREAD = np.array([1.0, 0.5])


def mixture(n=600, seed=0):
    """Three normal classes of unequal shares."""
    random = np.random.default_rng(seed)
    y = random.choice(list(CENTERS), n, p=[0.5, 0.3, 0.2])
    return np.array([CENTERS[label] for label in y]) + random.normal(size=(n, 2)) * SPREAD, y


@pytest.fixture(scope="module")
def fitted():
    X, y = mixture()
    small = {
        "generator": DenseDecoder((32,)),
        "critic": DenseEncoder((48, 48)),
        "objective": NonSaturating(penalty=1.0),
    }
    return ConditionalGAN(n_latent=2, max_updates=1200, learning_rate=2e-3, random_state=0, **small).fit(X, y)


@pytest.mark.spec("GEN-098")
def test_rows_of_a_class_have_its_mean_and_its_spread(fitted):
    """Of classes that lie 6 or more apart; a generator that ignored z would have no spread."""
    made, labels = fitted.sample(1500, np.repeat(list(CENTERS), 500), random_state=0)
    assert labels.tolist() == np.repeat(list(CENTERS), 500).tolist()
    for label, center in CENTERS.items():
        rows = made[labels == label]
        assert np.linalg.norm(rows.mean(0) - center) < 1.2, label
        assert (rows.std(0) > 0.4 * SPREAD).all() and (rows.std(0) < 2 * SPREAD).all(), label
    X, y = mixture(200, seed=1)
    scores = fitted.evaluate(X, y)
    crossed = fitted.evaluate(X, np.roll(y, 1))  # the labels of other rows
    assert scores["mmd"].value < crossed["mmd"].value / 3 and scores["coverage"].value > 2 * crossed["coverage"].value
    assert fitted.score(X, y) == -scores["mmd"].value and fitted.evaluate(X)["coverage"].value > 0.5
    # the critic was told the class too
    right, wrong = fitted.discriminate(X, y), fitted.discriminate(X, np.where(y == "a", "b", "a"))
    assert right.shape == (200,) and (right != wrong).mean() > 0.9 and ((right > 0) & (right < 1)).all()
    # verbs
    codes = fitted.codes(4, random_state=1)
    rows = fitted.decode(codes, "b")
    assert np.array_equal(rows, fitted.decode(codes, np.repeat("b", 4)))
    assert not np.allclose(rows, fitted.decode(codes, "c"))
    line = fitted.interpolate(codes[0], codes[1], "b", 5)
    assert np.allclose(line[[0, 4]], rows[:2])
    made, labels = fitted.sample(30, random_state=2)
    again, same = fitted.sample(30, random_state=2)
    assert np.array_equal(made, again) and np.array_equal(labels, same)
    assert np.array_equal(fitted.sample(30, labels, random_state=2)[0], made)


@pytest.mark.spec("GEN-098")
def test_the_critics_answer_is_the_logistic_of_its_logits_of_row_and_class():
    X, y = mixture(50)
    gan = ConditionalGAN(critic=DenseEncoder(()), max_updates=2, random_state=0, dtype="float64").fit(X, y)
    critic, places = gan.model_.critic, np.searchsorted(gan.classes_, y)
    (layer,) = (m for m in critic.network.modules() if isinstance(m, torch.nn.Linear))
    told = np.hstack([(X - X.mean(0)) / X.std(0), critic.labels.vectors.detach().numpy()[places]])
    logits = told @ layer.weight.detach().numpy()[0] + layer.bias.item()
    assert np.allclose(gan.discriminate(X, y), 1 / (1 + np.exp(-logits)), rtol=1e-9)


@pytest.mark.spec("GEN-098")
def test_labels_follow_the_classes_shares_in_the_weighted_rows(fitted):
    """Chi-square of 20,000 labels; false alarm 1e-5."""
    X, y = mixture()
    _, labels = fitted.sample(20_000, random_state=0)
    shares = [(y == label).mean() for label in CENTERS]
    assert stats.chisquare([(labels == label).sum() for label in CENTERS], 20_000 * np.array(shares)).pvalue > 1e-5
    weight = np.where(y == "c", 4.0, 1.0) * (y != "a")
    weighted = ConditionalGAN(max_updates=1, random_state=0).fit(X, y, sample_weight=weight)
    expected = [weight[y == label].sum() / weight.sum() for label in CENTERS]
    assert np.allclose(weighted.model_.shares, expected) and "a" not in weighted.sample(500, random_state=0)[1]


def linear(law):
    """An affine generator that has seen one update, in float64."""
    X, y = mixture(80)
    return ConditionalGAN(
        n_latent=3, noise=law, generator=DenseDecoder(()), critic=DenseEncoder((4,)), max_updates=1, random_state=0,
        dtype="float64",
    ).fit(X, y)  # fmt: skip


@pytest.mark.spec("GEN-066")
@pytest.mark.parametrize(("law", "mean", "variance"), [("normal", 0.0, 1.0), ("uniform", 0.5, 1 / 12)])
def test_noise_inputs_of_an_affine_network_have_exact_moments(law, mean, variance):
    gan = linear(law)
    model, n = gan.model_, 20_000
    z = gan.codes(n, random_state=0)
    peer = stats.norm() if law == "normal" else stats.uniform()
    assert z.shape == (n, 3) and min(stats.kstest(column, peer.cdf).pvalue for column in z.T) > 1e-5
    other = linear(law)
    with torch.no_grad():
        for parameter in other.model_.generator.parameters():
            parameter.add_(1.0)
    assert np.array_equal(z, other.codes(n, random_state=0))  # the law of z has no parameters
    layer = model.generator.network[0]
    W, b = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    scale, shift = model.scale.numpy(), model.shift.numpy()
    for place, label in enumerate(gan.classes_):
        vector = model.generator.labels.vectors[place].detach().numpy()
        center = shift + scale * (W[:, :3].sum(1) * mean + W[:, 3:] @ vector + b)
        covariance = variance * (scale[:, None] * W[:, :3]) @ (scale[:, None] * W[:, :3]).T
        rows, _ = gan.sample(n, label, random_state=1)
        assert (np.abs(rows.mean(0) - center) < 5 * np.sqrt(covariance.diagonal() / n)).all()
        assert np.allclose(np.cov(rows.T), covariance, rtol=0.06, atol=0.06 * covariance.max())


@pytest.mark.spec("GEN-066")
def test_at_held_noise_the_network_is_deterministic_and_its_gradient_a_difference():
    X, y = mixture(60)
    gan = ConditionalGAN(
        n_latent=2, generator=DenseDecoder((5,), activation="tanh"), critic=DenseEncoder((4,)), max_updates=2,
        random_state=0, dtype="float64",
    ).fit(X, y)  # fmt: skip
    model, labels = gan.model_, torch.tensor([0, 1, 2, 1])
    z = torch.from_numpy(gan.codes(4, random_state=0)).requires_grad_()
    first, last = model.generator.network[0], model.generator.network[-1]
    vectors = model.generator.labels.vectors
    with torch.no_grad():  # the same network by hand, a plain function of [z, v_y]
        inputs = np.hstack([z.numpy(), vectors[labels].numpy()])
        hidden = np.tanh(inputs @ first.weight.numpy().T + first.bias.numpy())
        plain = hidden @ last.weight.numpy().T + last.bias.numpy()
    assert np.allclose(model.make(z, labels).detach(), plain, rtol=1e-12)
    assert np.allclose(gan.decode(z.detach().numpy(), gan.classes_[labels]), model.rows(torch.from_numpy(plain)))

    def cost():
        return model.make(z, labels).sin().sum()

    for tensor in (first.weight, last.bias, vectors, z):
        (slope,) = torch.autograd.grad(cost(), tensor)
        ends = []
        with torch.no_grad():
            for h in (1e-6, -2e-6):
                tensor.view(-1)[1] += h
                ends.append(cost().item())
            tensor.view(-1)[1] += 1e-6
        assert slope.flatten()[1].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)


@pytest.mark.spec("GEN-066")
def test_recomputation_meets_the_same_noise_and_one_class_gives_many_rows():
    gan = linear("normal")
    model, labels, noise = gan.model_, torch.zeros(6, dtype=torch.int64), Noise(3, "draws")
    parameters = list(model.generator.parameters())

    def slopes(draw):
        return torch.autograd.grad((draw() ** 2).sum(), parameters)

    plain = slopes(lambda: model.draw(6, noise, labels))
    again = slopes(lambda: checkpoint(lambda: model.draw(6, noise, labels), use_reentrant=False))
    assert all(torch.equal(one, other) for one, other in zip(plain, again, strict=True))
    rows, _ = gan.sample(50, "a", random_state=0)
    assert len(np.unique(rows, axis=0)) == 50
    assert not np.array_equal(rows, gan.sample(50, "a", random_state=1)[0])


@pytest.mark.spec("GEN-098")
def test_an_image_has_the_map_of_its_class_as_one_more_channel():
    labels = LabelVectors(3, 6, (2, 3, 2), torch.float64)
    with torch.no_grad():
        labels.vectors.copy_(torch.arange(18.0).reshape(3, 6))
    x, y = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 12))), torch.tensor([2, 0, 1, 2])
    images = labels(x, y).detach().reshape(4, 2, 3, 3)
    assert torch.equal(images[..., :2], x.reshape(4, 2, 3, 2))
    assert torch.equal(images[..., 2], (6.0 * y[:, None] + torch.arange(6)).double().reshape(4, 2, 3))


def test_images_by_class_and_saving(tmp_path):
    data = load("digits")
    X, y = data.view("table")[:150].astype(np.float32), data.view("labels")[:150]
    gan = ConditionalGAN(
        generator="conv", critic="conv", scaling="range", n_latent=4, epochs=1, random_state=0
    ).fit(X, y)  # fmt: skip
    assert gan.model_.critic.labels.vectors.shape == (10, 64)  # a map for each class, beside the image
    made, labels = gan.sample(7, random_state=0)
    assert made.shape == (7, 64) and made.min() >= 0 and made.max() <= 16
    again = gnomon.load(gan.save(tmp_path / "model"))
    assert np.array_equal(again.sample(7, random_state=0)[0], made) and np.array_equal(again.classes_, gan.classes_)
    assert np.array_equal(again.sample(7, random_state=0)[1], labels)


def test_the_task_hands_the_labels_over_and_asks_for_them(tmp_path):
    iris, task = load("iris"), Generate()
    assert (task.examples(iris, ConditionalGAN())[1] == iris.view("labels")).all()
    assert task.examples(iris, gnomon.GAN())[1] is None
    gan = gnomon.fit(ConditionalGAN(max_updates=5, random_state=0), "iris")
    X, y = task.examples(iris, gan)
    assert math.isfinite(task.scores(gan, X, y)["coverage"].value) and set(task.figures(gan, X, y)) == {
        "samples",
        "data",
    }
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(40)))
    found, _ = suits(load(numbers))
    assert "gan" in found["generate"] and "conditional-gan" not in found["generate"]
    assert "conditional-gan" in suits(iris)[0]["generate"]
    with pytest.raises(UserError, match=r"no labels|no target"):
        gnomon.fit("conditional-gan", numbers)


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda gan: gan.sample(2, "z"), "class 'z' is in no training row"),
        (lambda gan: gan.sample(3, ["a", "b"]), "y must be one label or 3, got 2"),
        (lambda gan: gan.decode(np.zeros((2, 3)), "a"), "Z must have 2 columns, got 3"),
        (lambda gan: gan.discriminate(np.zeros((2, 2)), "q"), "class 'q'"),
        (lambda gan: ConditionalGAN().fit(mixture(20)[0]), "requires y to be passed"),
        (lambda gan: ConditionalGAN(noise="cauchy").fit(*mixture(20)), "noise must be"),
    ],
)
def test_what_cannot_be_asked(fitted, ask, told):
    with pytest.raises(UserValueError, match=told):
        ask(fitted)
