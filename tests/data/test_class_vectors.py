"""One-hot vectors of classes, against torch and scikit-learn, and where the library's own losses make them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.preprocessing import OneHotEncoder
from torch.nn import functional

import gnomon
from gnomon.data import class_vectors, from_one_hot, one_hot
from gnomon.data.augment.mixing import Mixup
from gnomon.data.text import Vocabulary
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.clusters import silhouettes
from gnomon.objectives.losses import BinaryCrossEntropy, CrossEntropyLoss, ProbabilityCrossEntropy
from gnomon.systems.energy.label_rbm import LabelRBM

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 7, (5, 4))
SCORES = torch.from_numpy(RNG.normal(size=(20, 7)) * 3)
LABELS = torch.from_numpy(CODES.ravel())


@pytest.mark.spec("NLP-72")
@pytest.mark.parametrize("shape", [(20,), (5, 4), (2, 5, 2), (0,), ()])
def test_it_is_torchs_and_scikit_learns(shape: tuple[int, ...]) -> None:
    codes = CODES.ravel()[: int(np.prod(shape))].reshape(shape)
    found = one_hot(codes, 7)
    assert found.shape == (*shape, 7) and found.dtype == np.float32
    np.testing.assert_array_equal(found, functional.one_hot(torch.from_numpy(np.asarray(codes)), 7).numpy())
    np.testing.assert_array_equal(from_one_hot(found), codes)
    if len(shape) == 1 and shape[0]:
        peer = OneHotEncoder(categories=[np.arange(7)], sparse_output=False).fit_transform(codes[:, None])
        np.testing.assert_array_equal(found, peer)
    tensor = one_hot(torch.from_numpy(np.asarray(codes)), 7, dtype=torch.float64)
    assert tensor.dtype == torch.float64
    np.testing.assert_array_equal(tensor.numpy(), found)
    assert torch.equal(from_one_hot(tensor), torch.from_numpy(np.asarray(codes)))


@pytest.mark.spec("NLP-72")
@pytest.mark.parametrize("kind", [np.array, torch.tensor, list])
@pytest.mark.parametrize("wrong", [-1, 3])
def test_a_label_out_of_range_is_refused_with_its_place(kind: Any, wrong: int) -> None:
    with pytest.raises(
        UserValueError, match=rf"labels must be in \[0, 3\), got {wrong} \(index 1\); give codes from 0"
    ):
        one_hot(kind([0, wrong, 2]), 3)
    with pytest.raises(UserValueError, match=rf"got {wrong} \(index 1, 0\)"):
        one_hot(kind([[0], [wrong]]), 3)


@pytest.mark.parametrize("wrong", [[0.0, 1.0], [True, False], ["a", "b"], torch.tensor([0.5]), torch.tensor([True])])
def test_what_is_no_code_is_refused(wrong: Any) -> None:
    with pytest.raises(UserTypeError, match="labels must be whole numbers"):
        one_hot(wrong, 2)


def test_numbers_of_classes_that_are_none_and_ones_that_memory_does_not_hold() -> None:
    for wrong in (0, -1, 2.5):
        with pytest.raises((UserValueError, UserTypeError), match="n_classes"):
            one_hot([0], wrong)
    with pytest.raises(UserValueError, match="keep the codes"):
        one_hot(np.zeros(10**6, np.int64), 10**6)


@pytest.mark.spec("NLP-72")
@pytest.mark.parametrize("wrong", [[[1, 1, 0]], [[0, 0, 0]], [[0.5, 0.5, 0]], [[2, 0, 0]], [[np.nan, 1, 0]]])
def test_the_inverse_refuses_what_is_no_unit_vector(wrong: Any) -> None:
    for kind in (np.array, torch.tensor):
        with pytest.raises(UserValueError, match=r"rows must hold a single 1 and zeros \(row 1\)"):
            from_one_hot(kind([[0, 1, 0], *wrong]))
    with pytest.raises(UserValueError, match="column for each class"):
        from_one_hot(1.0)


@pytest.mark.spec("NLP-72")
def test_cross_entropy_of_the_vector_is_that_of_the_class() -> None:
    hot = one_hot(LABELS, 7, dtype=torch.float64)
    for smoothing in (0.0, 0.1):
        loss = CrossEntropyLoss(smoothing=smoothing)
        own = -SCORES.log_softmax(1)[torch.arange(20), LABELS].mean()
        if not smoothing:
            assert loss(SCORES, LABELS).item() == pytest.approx(own.item(), rel=1e-12)
        assert loss(SCORES, hot).item() == pytest.approx(loss(SCORES, LABELS).item(), rel=1e-12)
        soft = (1 - smoothing) * hot + smoothing / 7  # label smoothing is a mixture with the uniform target
        assert CrossEntropyLoss()(SCORES, soft).item() == pytest.approx(loss(SCORES, LABELS).item(), rel=1e-12)


class Called(Exception):
    pass


def refuses(*_: Any, **__: Any) -> None:
    raise Called


def test_losses_systems_and_scores_take_their_vectors_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.zeros((4, 2, 2, 1))
    calls = {
        "gnomon.objectives.losses": [
            lambda: ProbabilityCrossEntropy().inputs(SCORES, LABELS, None),  # type: ignore[arg-type]
            lambda: BinaryCrossEntropy().inputs(SCORES, LABELS, None),  # type: ignore[arg-type]
        ],
        "gnomon.data.text": [lambda: Vocabulary(["a", "b"]).one_hot([0])],
        "gnomon.data.augment.mixing": [lambda: Mixup()(images, np.array([0, 1, 1, 0]), rng=0)],
        "gnomon.evaluation.clusters": [lambda: silhouettes(np.eye(3), [0, 1, 1])],
        "gnomon.systems.energy._labeled": [lambda: LabelRBM(n_hidden=2, epochs=1).fit(np.eye(4), [0, 1, 0, 1])],
    }
    for module, users in calls.items():
        for user in users:
            user()
        monkeypatch.setattr(f"{module}.one_hot", refuses)
        for user in users:
            with pytest.raises(Called):
                user()


@pytest.mark.spec("NLP-72")
@pytest.mark.parametrize("name", ["rnn-lm", "transformer-lm"])
def test_no_language_model_makes_vectors_as_wide_as_its_vocabulary(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_vectors, "one_hot", refuses)
    for module in ("gnomon.objectives.losses", "gnomon.data.text"):
        monkeypatch.setattr(f"{module}.one_hot", refuses)
    monkeypatch.setattr(functional, "one_hot", refuses)
    monkeypatch.setattr(torch, "eye", refuses)
    system = gnomon.make(name, epochs=1, random_state=0)
    system.fit(["a b c a b", "b c a"])
    assert np.isfinite(system.score(["a b"]))
