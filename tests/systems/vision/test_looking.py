"""Looking inside networks of images: finite differences, closed forms, loops, and a patch that decides the class."""

import numpy as np
import pytest
import torch
from torch import nn

import gnomon
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.hidden_windows import nearest_rows, occlusion
from gnomon.nn.attribution import grad_cam

SIDE, PATCH = 12, 3
SMALL = {
    "lenet": {"hidden": (12, 8)}, "cnn": {"layers": "4c3-p2-6c3-8"},
    "vgg": {"convolutions": (1, 1), "channels": (4, 6), "hidden": (8,)},
    "alexnet": {"channels": (4, 6, 6, 6, 4), "hidden": (8,)}, "nin": {"channels": (4, 6, 6)},
    "googlenet": {"width": 0.1}, "resnet": {"depths": (1, 1), "channels": (4, 6)},
    "densenet": {"depths": (2, 2), "growth": 4, "first": 4},
    "shufflenet": {"depths": (1, 1), "channels": (12, 24), "first": 6},
}  # fmt: skip


def planted(n, seed):
    """Noise; of class "patch" a bright square somewhere, whose corner is given too."""
    random = np.random.default_rng(seed)
    images, y = 0.3 * random.random((n, SIDE, SIDE)), np.array(["none", "patch"])[np.arange(n) % 2]
    corners = random.integers(0, SIDE - PATCH + 1, (n, 2))
    for image, label, (top, left) in zip(images, y, corners, strict=True):
        if label == "patch":
            image[top : top + PATCH, left : left + PATCH] = 1.0
    return images, y, corners


@pytest.fixture(scope="module")
def net():
    X, y, _ = planted(200, 0)
    settings = {"layers": "8c3-8c3-g", "norm": "none", "dropout": 0.0, "dtype": "float64"}
    found = gnomon.CNN(**settings, epochs=25, batch_size=20, learning_rate=0.01, random_state=0).fit(X, y)
    assert found.score(*planted(100, 1)[:2]) == 1
    return found


@pytest.fixture(scope="module", params=list(SMALL))
def tiny(request):
    """A network with trained norms, in double precision."""
    random = np.random.default_rng(0)
    X, y = random.random((12, 10, 10, 2)), np.arange(12) % 3
    made = gnomon.make(request.param, **SMALL[request.param], epochs=1, batch_size=6, dtype="float64", random_state=0)
    return made.fit(X, y), X[:3]


def scores(system, X):
    return system.model_.ask("scores", X)


# --- gradients --------------------------------------------------------------------------------------------------------


def test_saliency_is_the_finite_difference_of_the_score(tiny):
    system, X = tiny
    classes = np.array([2, 0, 1])
    found, h = system.saliency(X, classes, signed=True), 1e-6
    assert found.shape == X.shape and found.dtype == np.float64
    np.testing.assert_array_equal(system.saliency(X, classes), np.abs(found).max(-1))
    for place in ((0, 3, 4, 1), (1, 9, 0, 0), (2, 5, 5, 1)):
        up, down = X.copy(), X.copy()
        up[place] += h
        down[place] -= h
        own = (place[0], classes[place[0]])
        slope = (scores(system, up)[own] - scores(system, down)[own]) / (2 * h)
        assert found[place] == pytest.approx(slope, rel=1e-4, abs=1e-7)


def test_grad_cam_is_that_of_finite_differences(tiny, monkeypatch):
    """Every number of the smallest maps is moved by itself, all in one batch."""
    system, X = tiny
    monkeypatch.setattr(type(system.model_), "chunk", 1 << 22)
    model, h = system.model_, 1e-6
    stage = int(np.argmin([one[0].size for one in system.features(X[:1])]))
    maps = model.ask(lambda x: model.feature_maps(x, [stage])[0], X[:1])[0]
    moved = torch.from_numpy(h * np.eye(maps.size)).reshape(-1, *maps.shape)
    for code in (0, 1):
        answers = []
        for sign in (1, -1):
            change = sign * moved
            hook = model.features[stage].register_forward_hook(lambda _, __, output, change=change: output + change)
            answers.append(scores(system, np.repeat(X[:1], len(moved), 0))[:, code])
            hook.remove()
        alpha = ((answers[0] - answers[1]) / (2 * h)).reshape(len(maps), -1).mean(1)
        expected = np.maximum(np.einsum("k,kij->ij", alpha, maps), 0)
        found = system.grad_cam(X[:1], code, stage=stage, resize=False)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6 * np.abs(expected).max() + 1e-9)


def test_behind_a_mean_and_a_dense_layer_grad_cam_is_the_class_activation_map(net):
    X = planted(6, 2)[0]
    maps, weight = net.features(X)[-1], net.model_.head[-1].weight.detach().numpy()
    for code, label in enumerate(net.classes_):
        expected = np.maximum(maps @ weight[code], 0) / maps[0, ..., 0].size
        np.testing.assert_allclose(net.grad_cam(X, label, resize=False), expected, rtol=1e-12, atol=1e-15)


def test_maps_are_enlarged_between_the_middles_of_their_places():
    layer = nn.Identity()
    x = torch.tensor([[[[0.0, 4.0]]]])
    found = grad_cam(lambda x: layer(x).sum((2, 3)), layer, x, torch.tensor([0]), (2, 4))
    assert found.tolist() == [[[0.0, 1.0, 3.0, 4.0]] * 2]


def test_gradients_come_in_chunks_and_leave_nothing_behind(net, monkeypatch):
    X = planted(7, 3)[0]
    before = [None if one.grad is None else one.grad.clone() for one in net.model_.parameters()]
    expected = net.saliency(X), net.grad_cam(X, stage=0)
    monkeypatch.setattr("gnomon.systems.vision._looking.CHUNK", 3 * SIDE**2)
    np.testing.assert_allclose(net.saliency(X), expected[0], rtol=1e-12)
    np.testing.assert_allclose(net.grad_cam(X, stage=0), expected[1], rtol=1e-12)
    after = [one.grad for one in net.model_.parameters()]
    assert all(a is b or torch.equal(a, b) for a, b in zip(after, before, strict=True))
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in net.model_.modules())


# --- occlusion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("window", "stride", "fill"), [(1, 1, 0.0), (3, 2, 0.5), (4, 3, [0.1, 0.9]), (9, 2, 0.0)])
def test_occlusion_is_what_its_loops_give(window, stride, fill):
    random = np.random.default_rng(0)
    X, weight = random.random((2, 5, 7, 2)), random.normal(size=(70, 3))

    def answers(images):
        return np.tanh(images.reshape(len(images), -1) @ weight)

    found = occlusion(answers, X, [2, 0], window=window, stride=stride, fill=fill)
    for n, code in enumerate((2, 0)):
        falls = [[[] for _ in range(7)] for _ in range(5)]
        for top in range(5):
            for left in range(7):
                ends = (
                    top + window >= 5 and top == max(0, 5 - window),
                    left + window >= 7 and left == max(0, 7 - window),
                )
                if not (top % stride == 0 or ends[0]) or not (left % stride == 0 or ends[1]):
                    continue
                if (top and top + window > 5) or (left and left + window > 7):
                    continue
                hidden = X[n].copy()
                for i in range(top, min(5, top + window)):
                    for j in range(left, min(7, left + window)):
                        hidden[i, j] = fill
                change = answers(X[n : n + 1])[0, code] - answers(hidden[None])[0, code]
                for i in range(top, min(5, top + window)):
                    for j in range(left, min(7, left + window)):
                        falls[i][j].append(change)
        np.testing.assert_allclose(found[n], [[np.mean(one) for one in line] for line in falls], rtol=1e-12)


def test_occlusion_of_a_network_watches_probabilities(net):
    X, _, _ = planted(4, 4)
    given = net.occlusion(X, "patch", window=4, stride=2, fill=0.25)
    expected = occlusion(net.predict_proba, X, [1] * 4, window=4, stride=2, fill=0.25)
    np.testing.assert_allclose(given, expected, rtol=1e-12, atol=1e-15)
    usual = occlusion(
        net.predict_proba,
        X[..., None],
        net.predict_proba(X).argmax(1),
        window=3,
        stride=1,
        fill=X.mean((1, 2))[:, None, None, None],
    )
    np.testing.assert_allclose(net.occlusion(X), usual, rtol=1e-12, atol=1e-15)


# --- the patch --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["saliency", "grad_cam", "occlusion"])
def test_a_patch_that_decides_the_class_is_found(net, how):
    """The strongest of 12 x 12 pixels lies in a square of 3 x 3, or beside it; by chance in a sixth of the images."""
    X, y, corners = planted(60, 5)
    X, corners = X[y == "patch"], corners[y == "patch"]
    found = getattr(net, how)(X)
    assert found.shape == X.shape
    peaks = np.array([np.unravel_index(one.argmax(), one.shape) for one in found])
    inside = ((peaks >= corners - 1) & (peaks <= corners + PATCH)).all(1)
    assert inside.mean() >= 0.9


# --- nearest images ---------------------------------------------------------------------------------------------------


def test_nearest_rows_are_those_of_all_distances_at_once():
    random = np.random.default_rng(0)
    known, rows = random.integers(0, 3, (50, 4)).astype(float), random.integers(0, 3, (7, 4)).astype(float)
    distances = np.sqrt(((rows[:, None] - known) ** 2).sum(2))
    order = np.argsort(distances, axis=1, kind="stable")[:, :6]  # many are equally near: the first
    for sizes in ([50], [1] * 50, [3, 20, 27]):
        blocks = np.split(known, np.cumsum(sizes)[:-1])
        places, found = nearest_rows(rows, iter(blocks), k=6)
        assert places.tolist() == order.tolist()
        np.testing.assert_allclose(found, np.take_along_axis(distances, order, 1), rtol=1e-12)
    assert nearest_rows(rows, [known[:2]], k=6)[0].shape == (7, 2)


def test_nearest_images_are_so_in_what_the_last_layer_reads(tiny, monkeypatch):
    system, X = tiny
    among = np.random.default_rng(1).random((9, 10, 10, 2))
    monkeypatch.setattr("gnomon.systems.vision._looking.BLOCK", 4)
    places, distances = system.nearest(X, among, k=3)
    last = [one for one in system.model_.modules() if isinstance(one, nn.Linear | nn.Conv2d)][-1]
    read = []
    hook = last.register_forward_pre_hook(lambda _, given: read.append(given[0].detach().numpy()))
    scores(system, np.concatenate([X, among]))
    hook.remove()
    features = system.features(np.concatenate([X, among]))[-1].mean((1, 2)) if isinstance(last, nn.Conv2d) else read[0]
    expected = np.sqrt(((features[:3, None] - features[None, 3:]) ** 2).sum(2))
    order = np.argsort(expected, axis=1, kind="stable")[:, :3]
    assert places.tolist() == order.tolist()
    np.testing.assert_allclose(distances, np.take_along_axis(expected, order, 1), rtol=1e-9, atol=1e-12)
    again = system.nearest(X, X, k=1)
    assert again[0].ravel().tolist() == [0, 1, 2] and not again[1].any()


def test_images_of_the_class_are_nearest(net):
    (X, y, _), (known, labels, _) = planted(20, 6), planted(100, 7)
    places, _ = net.nearest(X, known, k=3)
    assert (labels[places] == y[:, None]).mean() >= 0.95


# --- mistakes ---------------------------------------------------------------------------------------------------------


def test_mistakes_of_people_are_told_in_one_line(net):
    X = planted(2, 8)[0]
    for said, ask in {
        r"class 'spot' is in no training row": lambda: net.saliency(X, "spot"),
        r"stage must be a whole number from -2 to 1, got 2": lambda: net.grad_cam(X, stage=2),
        r"window must be at least 1 and stride from 1 to window, got 2 and 3": lambda: net.occlusion(
            X, window=2, stride=3
        ),
        r"fill must be finite numbers that fit windows of shape \(2, 3, 3, 1\), got \[1, 2\]": lambda: net.occlusion(
            X, fill=[1, 2]
        ),
        r"fill must be finite numbers .*, got nan": lambda: net.occlusion(X, fill=np.nan),
        r"fill must be finite numbers .*, got 'black'": lambda: net.occlusion(X, fill="black"),
        r"stages must be a list of whole numbers, got 0": lambda: net.features(X, stages=0),
        r"k must be at least 1, got 0": lambda: net.nearest(X, X, k=0),
        r"known rows must have 2 columns, got shape \(1, 3\)": lambda: nearest_rows(np.ones((1, 2)), [np.ones((1, 3))]),
        r"no row is known": lambda: nearest_rows(np.ones((1, 2)), []),
        r"X must hold images, got shape \(2, 2\)": lambda: occlusion(lambda x: x, np.ones((2, 2)), [0, 0]),
    }.items():
        with pytest.raises((UserTypeError, UserValueError), match=said) as caught:
            ask()
        assert "\n" not in str(caught.value)
