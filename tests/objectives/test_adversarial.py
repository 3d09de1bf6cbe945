"""Adversarial objectives on finite supports and on densities on a line, with the code's own losses."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from gnomon.nn.layers import dense
from gnomon.numeric.noise import Noise
from gnomon.objectives.adversarial import MaximumLikelihood, Minimax, NonSaturating, game_value, optimal_critic
from gnomon.training.exchange import Exchange
from gnomon.training.games import simulate_game
from gnomon.training.group import Group
from gnomon.training.optimizers import SGD, Adam

F64 = torch.float64
P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])


def newton(p, q, recipe):
    """Logits that the code's critic loss is least at, on a finite support, by Newton's method."""
    a = torch.zeros(len(p), dtype=F64, requires_grad=True)
    p, q = torch.as_tensor(p), torch.as_tensor(q)
    rows, columns = torch.arange(len(p)).repeat_interleave(len(q)), torch.arange(len(q)).repeat(len(p))
    for _ in range(30):
        loss = (p[rows] * q[columns] * recipe.critic_loss(a[rows], a[columns])).sum()
        (slope,) = torch.autograd.grad(loss, a, create_graph=True)
        curve = torch.stack([torch.autograd.grad(s, a, retain_graph=True)[0] for s in slope])
        with torch.no_grad():
            a -= torch.linalg.solve(curve, slope)
    return a.detach(), -loss.item()


@pytest.mark.spec("GEN-093")
def test_the_best_critic_is_the_density_ratio_and_its_value_the_divergence():
    a, value = newton(P, Q, Minimax())
    assert np.allclose(a.sigmoid(), [0.714286, 0.5, 0.285714], atol=5e-7)
    assert np.allclose(a.sigmoid(), optimal_critic(P, Q), atol=1e-9)
    assert value == pytest.approx(-1.253466, abs=5e-7) and value == pytest.approx(game_value(P, Q), abs=1e-12)
    middle = (P + Q) / 2
    jsd = 0.5 * (stats.entropy(P, middle) + stats.entropy(Q, middle))
    assert jsd == pytest.approx(0.066414, abs=5e-7) and value == pytest.approx(2 * jsd - math.log(4), abs=1e-12)
    assert newton(P, P, Minimax())[1] == pytest.approx(-math.log(4), abs=1e-12)
    assert game_value(P, Q, [0.5] * 3) == pytest.approx(-math.log(4)) and optimal_critic([0.0], [0.0]) == 0.5
    # logits far out stay finite
    far = torch.tensor([-800.0, 800.0], requires_grad=True)
    for recipe in (Minimax(), NonSaturating()):
        loss = recipe.critic_loss(far, far).sum() + recipe.generator_loss(far).sum()
        assert bool(loss.isfinite()) and bool(torch.autograd.grad(loss, far)[0].isfinite().all())


@pytest.mark.spec("GEN-094")
def test_the_slopes_of_the_generators_losses():
    a = torch.tensor([-10.0, 0.0, 3.0], dtype=F64, requires_grad=True)
    sigma = a.detach().sigmoid()
    heuristic = torch.autograd.grad(NonSaturating().generator_loss(a).sum(), a)[0]
    minimax = torch.autograd.grad(Minimax().generator_loss(a).sum(), a)[0]
    assert torch.allclose(heuristic, -(1 - sigma)) and torch.allclose(minimax, -sigma)
    assert heuristic[0].item() == pytest.approx(-0.999955, abs=5e-7)
    assert minimax[0].item() == pytest.approx(-0.000045, abs=5e-7)
    assert torch.allclose(NonSaturating().generator_loss(a), -sigma.log())
    assert torch.allclose(Minimax().generator_loss(a), (1 - sigma).log())


@pytest.mark.spec("GEN-095")
def test_the_likelihood_payoff_has_the_gradient_of_the_divergence():
    theta = torch.tensor([0.3, -0.2, 0.5], dtype=F64, requires_grad=True)
    q = theta.softmax(0)
    p = torch.as_tensor(P)
    a, _ = newton(P, q.detach().numpy(), MaximumLikelihood())  # the best critic, held
    payoff = (q.detach() * MaximumLikelihood().generator_loss(a) * q.log()).sum()  # by the score function
    found = torch.autograd.grad(payoff, theta, retain_graph=True)[0]
    exact = torch.autograd.grad((p * (p.log() - q.log())).sum(), theta)[0]
    assert torch.allclose(found, exact, rtol=1e-8)
    assert torch.allclose(-MaximumLikelihood().generator_loss(a), p / q.detach())  # the density ratio
    far = torch.tensor([5.0, 1.0], requires_grad=True)
    clipped = MaximumLikelihood(clip=2.0).generator_loss(far)
    assert clipped.tolist() == pytest.approx([-math.exp(2), -math.e], rel=1e-6)
    assert torch.autograd.grad(clipped.sum(), far)[0][0] == 0


@pytest.mark.spec("GEN-096")
def test_simultaneous_steps_leave_the_saddle_and_others_do_not():
    path = simulate_game(steps=100, learning_rate=0.1)
    norms = np.linalg.norm(path[:, :, 0], axis=1)
    assert norms[100] == pytest.approx(1.644632, abs=5e-7)
    assert np.allclose(norms[1:] / norms[:-1], math.sqrt(1.01), rtol=1e-12)
    in_turn = np.linalg.norm(simulate_game(steps=5000, order="alternating")[:, :, 0], axis=1)
    assert in_turn.max() < 1.1 and in_turn.min() > 0.9
    a, b = simulate_game(steps=300, order="alternating")[:, :, 0].T
    assert np.allclose(a**2 + b**2 - 0.1 * a * b, 1.0, atol=1e-12) or np.allclose(
        a**2 + b**2 + 0.1 * a * b, 1.0, atol=1e-12
    )
    ahead = np.linalg.norm(simulate_game(steps=100, order="extragradient")[:, :, 0], axis=1)
    assert (np.diff(ahead) < 0).all() and ahead[-1] < 0.7
    tiny = np.linalg.norm(simulate_game(steps=1000, learning_rate=1e-4)[:, :, 0], axis=1)
    assert np.allclose(tiny, 1.0, atol=1e-5)  # the flow keeps the norm
    turned = simulate_game(steps=1000, learning_rate=1e-3)[-1, :, 0]
    assert np.allclose(turned / np.linalg.norm(turned), [math.cos(1), math.sin(1)], atol=1e-3)
    # each descends along its own slope alone: v = a^2 - b^2 has no cross term
    alone = simulate_game(SGD(), 1, start=([1.0], [2.0]), value=lambda a, b: (a**2 - b**2).sum())
    assert np.allclose(alone[1, :, 0], [0.8, 1.6])
    assert simulate_game(Adam(), 3, start=([1.0, 2.0], [0.0, 1.0])).shape == (4, 2, 2)
    with pytest.raises(ValueError, match="order must be known, got 'both'"):
        simulate_game(order="both")


class Tables(nn.Module):
    """Rows are points of a finite support; the critic has a logit for each point of each class."""

    conditional = True

    def __init__(self, made, seen):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(2, 3, dtype=F64))
        self.made, self.seen = made, seen

    def scaled(self, x):
        return x

    def draw(self, n, noise, y):
        self.seen.append(y)
        return self.made

    def judge(self, x, y):
        return self.logits[y, x]


@pytest.mark.spec("GEN-098")
def test_the_best_critic_of_each_class_is_its_own_density_ratio():
    """By the objective itself, on every (class, real point, made point) with its probability."""
    shares, data = np.array([0.7, 0.3]), np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    ours = np.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]])
    y, x, made = (torch.tensor(column) for column in zip(*np.ndindex(2, 3, 3), strict=True))
    weight = shares[y] * data[y, x] * ours[y, made]
    model = Tables(made, [])
    batch = batch_of(x.numpy(), weight)
    batch.data["y"] = y.numpy()
    objective = NonSaturating(penalty=0.0).build()
    for _ in range(30):
        loss = objective(model, batch, noise=Noise(0, "fit"), phase="critic", group=Group()).total()
        (slope,) = torch.autograd.grad(loss, model.logits, create_graph=True)
        curve = torch.stack([torch.autograd.grad(s, model.logits, retain_graph=True)[0].ravel() for s in slope.ravel()])
        with torch.no_grad():
            model.logits -= torch.linalg.solve(curve, slope.ravel()).reshape(2, 3)
    assert np.allclose(model.logits.detach().sigmoid(), data / (data + ours), atol=1e-9)
    assert all(torch.equal(seen, y) for seen in model.seen)  # rows are made of the classes of the batch
    middle = (data + ours) / 2
    jsd = 0.5 * (stats.entropy(data, middle, axis=1) + stats.entropy(ours, middle, axis=1))
    assert -loss.item() == pytest.approx((shares * (2 * jsd - math.log(4))).sum(), abs=1e-12)
    blind = newton(shares @ data, shares @ ours, NonSaturating())[1]
    assert -loss.item() > blind + 0.1  # what a critic that is not told the class can say


class Pair(nn.Module):
    """x = shift + scale z against a logit that is quadratic in x: the best critic of two normals is inside."""

    conditional = False

    def __init__(self):
        super().__init__()
        self.generator, self.critic = dense(1, 1, dtype=F64), dense(2, 1, dtype=F64)
        with torch.no_grad():
            self.generator.weight.fill_(2.0)
            self.generator.bias.fill_(1.0)

    def scaled(self, x):
        return x.clone()

    def draw(self, n, noise, y=None):
        return self.generator(noise.normal((n, 1), like=self.critic.weight.detach()))

    def judge(self, x, y=None):
        return self.critic(torch.cat([x, x.square()], 1))[:, 0]


def batch_of(x, weight=None):
    places = np.arange(len(x))
    return SimpleNamespace(
        data={"X": x}, rows=places, positions=places, weight=np.ones(len(x)) if weight is None else weight
    )


@pytest.mark.spec("GEN-093")
def test_a_trained_critic_of_two_normals_approaches_the_density_ratio():
    model, objective = Pair(), Minimax(penalty=0.0).build()
    exchange = Exchange(Group())
    exchange.prepare(model, objective)
    phases = objective.phases(model)
    assert list(phases) == ["critic", "generator"]
    parameters = exchange.choose(phases["critic"].parameters)
    rule = Adam().build(list(parameters.values()), 0.02)
    held = model.generator.weight.detach().clone()
    for update in range(400):
        x = Noise(0, "data").at(update).normal((2000, 1), dtype=np.float64)
        noise = Noise(0, "fit/critic").at(update)
        loss = objective(model, batch_of(x), noise=noise, phase="critic", group=Group())
        exchange.backward(loss, parameters)
        rule.step()
    assert torch.equal(model.generator.weight, held)
    at = torch.linspace(-2, 3, 11, dtype=F64)[:, None]
    exact = stats.norm.logpdf(at[:, 0]) - stats.norm.logpdf(at[:, 0], 1.0, 2.0)
    assert np.allclose(model.judge(at).detach(), exact, atol=0.12)


@pytest.mark.spec("GEN-093", "GEN-094")
def test_each_player_is_given_its_own_loss_and_the_other_no_gradient():
    model = Pair()
    with torch.no_grad():
        model.critic.weight.copy_(torch.tensor([[0.7, -0.2]], dtype=F64))
    x = np.linspace(-1, 2, 5)[:, None]
    weight = np.array([1.0, 2.0, 0.0, 1.0, 0.5])
    objective = NonSaturating(critic_steps=3, critic_rate=2.0, penalty=4.0).build()
    phases = objective.phases(model)
    assert (phases["critic"].steps, phases["critic"].rate) == (3, 2.0)
    noise = Noise(0, "fit/critic")
    batch = batch_of(x)
    batch.weight = weight
    loss = objective(model, batch, noise=noise, phase="critic", group=Group())
    z = noise.child("latent").rows(np.arange(5)).normal((5, 1), dtype=np.float64)
    logit = lambda x: (0.7 * x - 0.2 * x**2)[:, 0]  # noqa: E731
    fake = 1 + 2 * z
    share = weight / weight.sum()
    expected = (share * (np.logaddexp(0, -logit(x)) + np.logaddexp(0, logit(fake)))).sum()
    slope = (0.7 - 0.4 * x[:, 0]) ** 2
    assert loss.total().item() == pytest.approx(expected + 4 / 2 * (share * slope).sum(), rel=1e-12)
    right = 0.5 * ((logit(x) > 0).astype(float) + (logit(fake) < 0))
    assert loss.terms["critic_accuracy"].sum / weight.sum() == pytest.approx((share * right).sum())
    by_generator = torch.autograd.grad(loss.total(), list(model.generator.parameters()), allow_unused=True)
    assert by_generator == (None, None)
    loss = objective(model, batch, noise=noise, phase="generator", group=Group())
    assert loss.watched == "generator"
    assert loss.total().item() == pytest.approx((share * np.logaddexp(0, -logit(fake))).sum(), rel=1e-12)


def test_recipes_have_short_names():
    assert [one.short for one in (Minimax, NonSaturating, MaximumLikelihood)] == ["minimax", "non-saturating", "ml"]
