"""Captions of images: the grid, the distribution that is learned, where it looks, files and commands."""

import itertools
import json

import numpy as np
import pytest
import torch
from PIL import Image

import gnomon
from gnomon.cli.main import run
from gnomon.data import load, split
from gnomon.data.counting import EOS
from gnomon.errors import UserError
from gnomon.evaluation.translation import bleu
from gnomon.nn.attention import AdditiveAttention, NoAttention
from gnomon.nn.grids import ImageGrid, place_code
from gnomon.numeric.noise import Noise
from gnomon.numeric.ragged import Ragged
from gnomon.systems.sequence.captioner import Captioner, CaptionModel, Pictures

F64 = torch.float64
TINY = {
    "channels": (3, 4), "convolutions": 1, "n_hidden": 8, "n_embedding": 4, "epochs": 3, "batch_size": 8,
    "random_state": 0,
}  # fmt: skip
COLORS = ("red", "green", "blue", "yellow")


@pytest.fixture(scope="module")
def shapes():
    """Captions of colored shapes after a short fit, and scenes that it has not seen."""
    train, held = split(load("colored-shapes"), test=0.2, seed=0)
    system = Captioner(epochs=10, early_stopping="off", learning_rate=5e-3, random_state=0)
    return system.fit(train.view("images"), train.text), held


def model_of(size=5, attention=None):
    made = CaptionModel(1, size, 3, 4, attention or AdditiveAttention(units=3), dtype=F64, channels=(2, 3))
    made.initialize(Noise(3, "x"))
    return made


def images_of(n=2, shape=(6, 5, 1)):
    return np.random.default_rng(0).random((n, *shape))


# --- the network ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRA-181")
def test_the_grid_has_a_vector_of_every_cell_with_its_place():
    net = ImageGrid(1, 4, channels=(2, 3), batch_norm=False, dtype=F64)
    net.initialize(Noise(1, "x"))
    assert net.cells(6, 5) == (3, 3)
    vectors, whole = net(torch.from_numpy(images_of()))
    assert vectors.shape == (2, 9, 4)
    torch.testing.assert_close(whole, vectors.mean(1))
    code = place_code(3, 3)
    np.testing.assert_allclose(code[5, :2], [0.5, 5 / 6])  # row 1, column 2
    np.testing.assert_allclose(code[5, 2:6], np.sin(np.pi * np.array([1, 2, 4, 8]) * 0.5), atol=1e-12)
    flat, _ = net(torch.full((1, 12, 12, 1), 0.0, dtype=F64))  # a plain image: what differs within it is the place
    inner = flat.view(6, 6, 4)[2:4, 2:4].reshape(4, 4)
    assert (inner[0] - inner[1]).abs().max() > 1e-3


@pytest.mark.spec("PRA-181")
@pytest.mark.parametrize("attention", [AdditiveAttention(units=3), NoAttention()])
def test_all_captions_add_up_to_one(attention):
    """Of all captions of up to two tokens, and of what begins with any three."""
    made = model_of(5, attention)
    images = Pictures(images_of(1), 9)
    tokens = [0, 3, 4]
    total = 0.0
    for length in range(3):
        for caption in itertools.product(tokens, repeat=length):
            total += np.exp(made.log_likelihood(images, Ragged.of([caption]))[0])
    ends = [np.exp(made.next_log_probs(images, Ragged.of([c]))[0]) for c in itertools.product(tokens, repeat=2)]
    begun = [
        np.exp(made.log_likelihood(images, Ragged.of([c]))[0]) / p[-1, EOS]
        for c, p in zip(itertools.product(tokens, repeat=2), ends, strict=True)
    ]
    rest = sum(b * (1 - p[-1, EOS]) for b, p in zip(begun, ends, strict=True))
    assert total + rest == pytest.approx(1, abs=1e-12)


@pytest.mark.spec("PRA-181")
def test_without_attention_the_image_is_one_vector():
    """Two images whose grids have the same mean get the same captions, with attention other ones."""
    for attention, differs in ((NoAttention(), False), (AdditiveAttention(units=3), True)):
        made = model_of(5, attention)
        memory = made.look(torch.from_numpy(images_of(1)))
        turned = made.remembered(memory.states.flip(1) * 1.0, memory.mask, memory.context)
        other = made.remembered(memory.states * 2 - memory.context[:, None], memory.mask, memory.context)
        given = torch.tensor([[1, 3, 4]])
        torch.testing.assert_close(made.scores(memory, given), made.scores(turned, given))  # a set of vectors
        assert ((made.scores(memory, given) - made.scores(other, given)).abs().max() > 1e-6) == differs


# --- what is learned ------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRA-181")
def test_phrases_of_shapes_are_written(shapes):
    """Exact at least 0.9 of 240 (most frequent phrase: below 0.05); BLEU is sacrebleu's of the same words."""
    system, held = shapes
    scores = system.evaluate(held.view("images"), held.text)
    assert scores["exact"].value >= 0.9
    captions = system.caption(held.view("images"))
    assert scores["exact"].value == np.mean([a == b for a, b in zip(captions, held.text, strict=True)])
    assert scores["bleu"].value == bleu(captions, held.text, tokenizer="none").value
    assert scores["log_likelihood"].value == pytest.approx(system.score(held.view("images"), held.text))
    symbols = system.transcribe(held.view("images")[:5])
    assert [" ".join(one) for one in symbols] == captions[:5]


@pytest.mark.spec("PRA-181")
def test_it_looks_at_the_object_when_it_names_its_color(shapes):
    """The cell with the largest weight holds a pixel of the shape: of 240 images at least 0.9; by chance below 0.35."""
    system, held = shapes
    maps, text = system.alignment(held.view("images"), held.text), held.text
    assert maps[0].shape == (9, 6, 6)
    np.testing.assert_allclose([one.sum((1, 2)) for one in maps], 1, atol=1e-5)
    there = held.masks.reshape(-1, 6, 4, 6, 4).max((2, 4)).reshape(-1, 36)
    assert there.mean() < 0.35
    words = np.array([one.split() for one in text])
    place = np.isin(words, COLORS).argmax(1)
    peak = np.array([one[at].argmax() for one, at in zip(maps, place, strict=True)])
    assert there[np.arange(len(peak)), peak].mean() >= 0.9


def test_other_sizes_are_captioned(shapes):
    system, held = shapes
    wider = np.pad(held.view("images")[:3], ((0, 0), (0, 0), (0, 8), (0, 0)))
    assert len(system.caption(wider)) == 3
    assert system.alignment(wider)[0].shape[1:] == (6, 8)
    with pytest.raises(UserError, match="3 channels, got 1"):
        system.caption(np.zeros((1, 24, 24)))


@pytest.mark.spec("PRA-181")
def test_a_caption_is_searched_in_every_way():
    made = Captioner(**TINY).fit(images_of(12, (4, 4)), ["a b", "b a b", "b"] * 4)
    X = images_of(3, (4, 4))
    assert made.caption(X, method="greedy") == made.caption(X, width=1)
    assert made.caption(X, max_length=1) == [one.split()[0] if one else "" for one in made.caption(X, max_length=1)]
    assert made.caption(X, method="sample", random_state=1) == made.caption(X, method="sample", random_state=1)
    with pytest.raises(UserError, match="method"):
        made.caption(X, method="guess")


def test_no_attention_has_no_alignment():
    made = Captioner(**TINY, attention="none").fit(images_of(8, (4, 4)), ["a b", "b a"] * 4)
    with pytest.raises(UserError, match="attention must not be 'none'"):
        made.alignment(images_of(2, (4, 4)))


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (None, "y to be passed"),
        (["a"] * 3, "caption for each of 8 images, got 3"),
        (["", " "] * 4, "no tokens"),
        (["a", 3] * 4, "3"),
        (["a b c d e"] * 8, "at most 4 words, got 5"),
    ],
)
def test_captions_that_are_none_are_refused(y, words):
    with pytest.raises(UserError, match=words):
        Captioner(**TINY, longest=4).fit(images_of(8, (4, 4)), y)


def test_empty_captions_and_tokens_that_are_new():
    made = Captioner(**TINY).fit(images_of(8, (4, 4)), ["", "a b", "b \N{SNOWMAN}", "a"] * 2)
    assert np.isfinite(made.log_prob(images_of(2, (4, 4)), ["", "new words"])).all()


# --- files and commands ---------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    top = tmp_path / "album"
    (top / "images").mkdir(parents=True)
    random = np.random.default_rng(0)
    for i in range(12):
        Image.fromarray(random.integers(0, 256, (8, 6, 3)).astype(np.uint8)).save(top / f"images/{i:02}.png")
    lines = [f'{i:02}.png,"one, two {("red", "blue")[i % 2]} of four"' for i in reversed(range(12))]
    (top / "captions.csv").write_text("file,caption\n" + "\n".join(lines) + "\n")
    return top


@pytest.mark.spec("PRA-181")
def test_a_folder_of_images_and_a_table_of_captions(folder):
    data = load(folder)
    assert data.images == (8, 6, 3)
    assert data.text[:2] == ("one, two red of four", "one, two blue of four")
    rows = [line.split(",", 1) for line in (folder / "captions.csv").read_text().splitlines()[1:]]
    table = [{"file": name, "caption": text.strip('"')} for name, text in rows]
    (folder / "captions.csv").unlink()
    (folder / "captions.jsonl").write_text("\n".join(map(json.dumps, table)))
    assert load(folder).text == data.text
    (folder / "captions.jsonl").unlink()
    (folder / "captions.tsv").write_text("file\tcaption\n" + "\n".join("\t".join(one.values()) for one in table))
    assert load(folder).text == data.text


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("name,caption\n00.png,a\n", "columns must be file, caption, got name, caption"),
        ("file,caption\n0.png,a\n", "must be an image of the folder, got '0.png' .*line 2"),
        ("file,caption\n00.png,a\n", "the image has no caption .*images/01.png"),
        ("file,caption\n00.png,a\n00.png,b\n", "the image has 2 captions .*images/00.png"),
    ],
)
def test_what_is_wrong_with_captions_is_said_with_the_place(folder, table, words):
    (folder / "captions.csv").write_text(table)
    with pytest.raises(UserError, match=words):
        load(folder)


@pytest.mark.spec("PRA-181")
def test_fit_evaluate_predict_and_report(capsys, folder, tmp_path):
    out, tiny = str(tmp_path / "run"), ["--channels", "3x4", "--n-hidden", "6", "--epochs", "2", "--random-state", "0"]
    assert run(["fit", "captioner", str(folder), *tiny, "--out", out]) == 0
    capsys.readouterr()
    assert run(["evaluate", out, str(folder), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert {"bleu", "exact", "log_likelihood"} <= set(scores)
    assert run(["predict", out, str(folder / "images")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 13
    page = tmp_path / "page.html"
    assert run(["report", out, "--out", str(page)]) == 0
    assert "What is written of images" in page.read_text()
    assert gnomon.load(out).caption(load(folder).view("images")[:1])
    assert run(["fit", "captioner", "digits"]) == 2
    assert "not images with captions" in capsys.readouterr().err
