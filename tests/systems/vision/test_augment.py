"""Networks that learn from changed pictures: the same for any number of processes, and after a stop."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import gnomon
from gnomon.cli.compare import varied
from gnomon.cli.main import run
from gnomon.cli.options import parse_system
from gnomon.data import Batches
from gnomon.data.augment import Chain, ColorJitter, Mixup, PadAndCrop, PCAColor, RandomFlip
from gnomon.data.augment.base import Augmentation
from gnomon.data.augment.training import Augmenter
from gnomon.data.batches import Batch
from gnomon.data.examples import Examples
from gnomon.data.layouts import Rows
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise, recording
from gnomon.objectives.losses import CrossEntropyLoss, Focal
from gnomon.objectives.supervised import Supervised
from gnomon.tasks.settings import title_of
from gnomon.testing import Case, arrays_of
from gnomon.training.group import Group
from gnomon.training.launch import launch

RANDOM = np.random.default_rng(0)
IMAGES, CODES = RANDOM.random((23, 8, 8, 3)), RANDOM.integers(0, 3, 23)
WEIGHT = RANDOM.uniform(0.5, 2.0, 23)
EVERYTHING = (
    "flip + crop(padding=1) + resized-crop(scale=(0.5,1)) + affine(shear=5) + elastic(alpha=3,sigma=2) + "
    "jitter(hue=0.1) + pca-color(sd=2) + cutout + cutmix"
)


def examples():
    return Examples({"X": IMAGES, "y": CODES}, WEIGHT)


@pytest.mark.spec("DLN-137", "DLN-138", "DLN-139", "PRA-127", "PRA-128", "PRA-129")
@pytest.mark.parametrize("text", [EVERYTHING, "affine + jitter + mixup(alpha=1)"])
def test_pictures_are_the_same_on_any_number_of_processes(text):
    change = Augmenter(Augmentation.of_text(text), examples())
    before = IMAGES.copy()
    whole = Batches(examples(), Rows(9), noise=Noise(0, "fit"), transform=change)
    assert np.array_equal(IMAGES, before)
    parts = [whole.shard(Group(rank, 3)) for rank in range(3)]
    with recording():  # no number is drawn twice
        every = [whole.step(e, i) for e in range(2) for i in range(whole.steps)]
    for k, batch in enumerate(every):
        assert not np.array_equal(batch.data["X"], IMAGES[batch.rows])
        assert batch.data["X"].min() >= 0 and batch.data["X"].max() <= 1 and batch.data["X"].flags.c_contiguous
        shared = [part.step(*divmod(k, whole.steps)) for part in parts]
        for name in ("X", "share", "y_other", "weight_other"):
            assert np.array_equal(np.concatenate([one.data[name] for one in shared]), batch.data[name]), name
    # another epoch, other pictures: of every row
    first, second = (np.concatenate([b.data["X"][np.argsort(b.rows)] for b in every[i : i + 1]]) for i in (0, 3))
    assert not np.array_equal(first, second)


def test_a_picture_with_an_empty_part_and_one_that_is_alone():
    change = Augmenter(Augmentation.of_text("flip + mixup"), examples())
    whole = Batches(examples(), Rows(1), noise=Noise(0, "fit"), transform=change)
    empty = whole.shard(Group(0, 2)).step(0, 0)
    assert len(empty) == 0 and len(whole.shard(Group(1, 2)).step(0, 0)) == 1


@pytest.mark.parametrize("loss", [CrossEntropyLoss(), Focal(), CrossEntropyLoss(class_weight=(1.0, 2.0, 0.5))])
def test_a_mixed_row_has_the_loss_of_the_mixture_of_its_codes(loss):
    class Model:
        device = "cpu"

        def scores(self, x):
            return x

    scores = torch.from_numpy(RANDOM.normal(size=(6, 3)))
    y, other, share = np.array([0, 1, 2, 0, 1, 2]), np.array([1, 1, 0, 2, 2, 0]), RANDOM.random(6)
    batch = Batch(
        {"X": scores, "y": y, "y_other": other, "share": share, "weight_other": np.ones(6)}, np.arange(6), np.arange(6),
        np.ones(6),
    )  # fmt: skip
    (term,) = Supervised(loss)(Model(), batch, noise=Noise(0, "a"), phase="train", group=Group()).terms.values()
    each = [loss(scores, torch.from_numpy(one), reduction="none").numpy() for one in (y, other)]
    assert float(term.sum) == pytest.approx((share * each[0] + (1 - share) * each[1]).sum())
    if loss == CrossEntropyLoss():
        soft = share[:, None] * np.eye(3)[y] + (1 - share[:, None]) * np.eye(3)[other]
        assert float(term.sum) == pytest.approx(float(loss(scores, torch.from_numpy(soft), reduction="sum")))
        assert term.weight == pytest.approx(6)


def test_a_text_a_sum_and_a_chain_are_one_recipe():
    joined = RandomFlip(p=0.3, direction="up-down") + PadAndCrop(padding=1) + Mixup(alpha=0.4)
    assert joined.steps == "flip(p=0.3, direction=up-down) + crop(padding=1) + mixup(alpha=0.4)"
    assert joined.parts == (RandomFlip(0.3, "up-down"), PadAndCrop(1), Mixup(0.4))
    assert Augmentation.of_text("none").parts == () and Chain("none + flip").parts == (RandomFlip(),)
    fitted = Chain("pca-color(sd=1) + jitter").fit(IMAGES)
    assert fitted.parts == (PCAColor(1).fit(IMAGES), ColorJitter())
    given = parse_system("cnn:augment=flip+crop(padding=1,fill=0.5),epochs=2")[1]
    assert given == {"augment": "chain", "epochs": 2, "augment__steps": "flip+crop(padding=1,fill=0.5)"}
    assert gnomon.make("cnn", **given).recipe("augment").parts == (RandomFlip(), PadAndCrop(1, 0.5))
    title = title_of(gnomon.CNN(augment=joined))
    assert gnomon.make(*parse_system(title)[:1], **parse_system(title)[1]).recipe("augment") == joined
    both = varied(["cnn"], ("augment=none,flip+crop(padding=1,fill=0.5)",))
    assert both == ["cnn:augment=none", "cnn:augment=flip+crop(padding=1,fill=0.5)"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("flap", "unknown augment 'flap'"),
        ("flip + crap", "unknown augment 'crap'"),
        ("flip +", "augment must be short names joined by"),
        ("flip(q=1)", "flip takes p=..., direction=..., got 'q=1'"),
        ("flip(0.5)", "flip takes p=..., direction=..., got '0.5'"),
        ("flip(p=2)", "p must be"),
        ("crop(padding=8)", "padding must be below the 8 pixels"),
        ("mixup + flip", "mixup and cutmix must come last"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(text, said):
    with pytest.raises(UserError, match=said) as error:
        gnomon.CNN(augment=text, epochs=1).fit(IMAGES, CODES)
    assert "\n" not in str(error.value)


def net(**fields):
    return gnomon.CNN(
        layers="4c3-p2-8", epochs=2, batch_size=8, random_state=0, **{"augment": EVERYTHING} | fields
    )  # fmt: skip


def test_predictions_are_of_the_pictures_as_they_are_and_a_saved_fit_says_what_it_learned_from(tmp_path):
    fitted = net().fit(IMAGES, CODES)
    assert np.array_equal(fitted.predict_proba(IMAGES), fitted.predict_proba(IMAGES))
    alone = fitted.predict_proba(IMAGES[5:6])
    np.testing.assert_allclose(fitted.predict_proba(IMAGES)[5:6], alone, rtol=1e-6)
    plain = net(augment="none").fit(IMAGES, CODES)
    assert not np.array_equal(arrays_of(plain)["head.1.weight"], arrays_of(fitted)["head.1.weight"])
    assert np.array_equal(arrays_of(net(augment="crop(padding=0)").fit(IMAGES, CODES))["head.1.weight"],
                          arrays_of(plain)["head.1.weight"])  # fmt: skip
    loaded = gnomon.load(fitted.save(tmp_path / "net"))
    assert loaded.augment == EVERYTHING and np.array_equal(loaded.predict(IMAGES), fitted.predict(IMAGES))


def test_validation_rows_are_judged_as_they_are():
    held = (IMAGES[:6], CODES[:6])
    moved = net(augment="jitter(brightness=0.9)", learning_rate=1e-12, norm="none").fit(IMAGES, CODES, validation=held)
    still = net(augment="none", learning_rate=1e-12, norm="none").fit(IMAGES, CODES, validation=held)
    gaps = [
        abs(moved.history_[one][0] - still.history_[one][0]) for one in ("validation_cross_entropy", "cross_entropy")
    ]
    assert gaps[0] < 1e-6 < gaps[1]


def fitted_arrays():
    return arrays_of(net().fit(IMAGES, CODES, sample_weight=WEIGHT))


@pytest.mark.slow
def test_a_fit_that_was_stopped_goes_on_to_the_bit():
    for augment in (EVERYTHING, "affine + mixup"):
        Case(net(augment=augment), (IMAGES, CODES)).check("resumes")


@pytest.mark.slow
def test_two_processes_fit_as_one_does():
    alone, together = fitted_arrays(), launch(fitted_arrays, devices=2)
    for name, value in alone.items():
        np.testing.assert_allclose(value.astype(float), together[name].astype(float), atol=1e-9)


def test_it_is_an_option_of_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = load_digits(return_X_y=True)
    np.savez("digits.npz", X=(X[:60] / 16).reshape(-1, 8, 8), y=y[:60])
    words = ["fit", "cnn", "digits.npz", "--layers", "4c3-p2-8", "--epochs", "1", "--out", "run"]
    assert run([*words, "--augment", "flip(p=0.1) + crop(padding=1)"]) == 0
    assert gnomon.load("run").recipe("augment").parts == (RandomFlip(0.1), PadAndCrop(1))
    assert run(["info", "run"]) == 0
    assert "flip(p=0.1) + crop(padding=1)" in capsys.readouterr().out
    assert run([*words[:-1], "other", "--augment", "flip + crap"]) == 2
    assert "unknown augment 'crap'" in capsys.readouterr().err and not (tmp_path / "other").exists()
