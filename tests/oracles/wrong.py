"""Layers and objectives with a backward that is wrong on purpose."""

import torch

import gnomon
from gnomon.nn.module import Module
from gnomon.objectives.base import Loss, Objective, Term


class Square(torch.autograd.Function):
    """x^2, with a backward that is `factor` times the right one."""

    @staticmethod
    def forward(context, x, factor):
        context.save_for_backward(x)
        context.factor = factor
        return x * x

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        return gradient * 2 * x * context.factor, None


class Squares(Module):
    """An affine layer, squared."""

    def __init__(self, factor=1.0):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.first, self.factor = torch.nn.Linear(3, 2), factor
        self.scale = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
        return Square.apply(self.first(x), self.factor) * self.scale


class SlippedObjective(Objective):
    """Softmax regression's loss with a closed-form gradient; `sign` -1 flips the bias's."""

    def __init__(self, sign=1.0):
        super().__init__()
        self.sign = sign

    def forward(self, model, batch, *, noise, phase, group):
        X, y = torch.as_tensor(batch.data["X"]), torch.as_tensor(batch.data["y"])
        weight = torch.as_tensor(batch.weight)
        scores = model.scores(X).detach()
        losses = torch.nn.functional.cross_entropy(scores, y, reduction="none")
        delta = (scores.softmax(1) - torch.nn.functional.one_hot(y, scores.shape[1])) * weight[:, None]
        x = (X - model.shift) / model.scale
        gradients = {"weight": (x.T @ delta).numpy(), "bias": self.sign * delta.sum(0).numpy()}
        return Loss({"cross_entropy": Term((losses * weight).sum(), float(weight.sum()))}, gradients, "cross_entropy")


class ClosedForm(gnomon.SoftmaxRegression):
    """Softmax regression with that objective."""

    sign = 1.0

    def make_objective(self):
        return SlippedObjective(self.sign)


class Flipped(ClosedForm):
    """Its bias climbs."""

    sign = -1.0
