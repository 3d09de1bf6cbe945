"""Texts in scripts without spaces: noticed, cut into characters, the same at every door and after a save."""

from __future__ import annotations

import pytest

import gnomon
from gnomon.cli.main import run
from gnomon.data import Dataset
from gnomon.data.scripts import closed, has_no_spaces, spaced
from gnomon.data.text import sentences
from gnomon.tasks.compare import compare

CHINESE = (
    "我们今天学习机器学习。",
    "机器学习很有意思,我们用GPU训练。",
    "今天天气很好,我们学习。",
    "深度学习是一种机器学习。",
) * 10
WORDS = ("我们 今天 学习 机器 学习 。", "今天 天气 很好") * 10


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (CHINESE, True),
        (WORDS, False),
        (["吾輩は猫である。名前はまだ無い。"], True),
        (["ภาษาไทยไม่มีการเว้นวรรคระหว่างคำ"], True),
        (["ภาษา ไทย ไม่ มี การ เว้นวรรค"], False),
        (["the sun casts", "a shadow"], False),
        (["Солнце светит"], False),
        (["hello 你好"], False),
        (["an English text about 机器学习很有意思, which it quotes once and then no more"], False),
    ],
)  # fmt: skip
def test_scripts_without_spaces_are_told_from_words_that_are_set_apart(text, found):
    """E3."""
    assert has_no_spaces(sentences(list(text))) is found
    assert closed(" ".join(sentences(spaced([text[0]]))[0])).replace(" ", "") == text[0].replace(" ", "")


@pytest.fixture
def fitted():
    with pytest.warns(UserWarning, match="a script without spaces: each of its characters is a token"):
        return gnomon.NGram(n=2, smoothing="additive").fit(CHINESE)


def test_chinese_is_cut_into_characters(fitted, tmp_path):
    """E3: each line was one word; perplexity now is that of characters, and samples are Chinese."""
    characters = [[*"我们今天学习机器学习。"], [*"我们用", "GPU", *"训练"]]
    same = gnomon.NGram(n=2, smoothing="additive").fit(sentences(spaced(list(CHINESE))))
    assert set(fitted.vocabulary_.tokens) == {"GPU", *"".join(CHINESE).replace("GPU", "")}
    assert fitted.perplexity(CHINESE) == same.perplexity(sentences(spaced(list(CHINESE))))
    given = ["我们今天学习机器学习。", "我们用GPU训练"]
    for form in (given, "\n".join(given), Dataset("t", text=tuple(given)), iter(given), characters):
        assert fitted.log_prob(form).tolist() == pytest.approx(same.log_prob(characters))
    assert fitted.generate("我们今", method="greedy")[0].startswith("我们今天")
    assert fitted.next_tokens("机", 1)[0][0] == "器"
    assert "words and single characters" in fitted.evaluate(CHINESE)["perplexity"].data_space
    fitted.save(tmp_path / "m")
    assert gnomon.load(tmp_path / "m").perplexity(CHINESE) == fitted.perplexity(CHINESE)


def test_words_that_are_set_apart_stay_words():
    """E3: a text that was segmented before is no text without spaces."""
    model = gnomon.NGram(n=1, smoothing="additive").fit(WORDS)
    assert "我们" in model.vocabulary_.tokens and not {"我", "们"} & set(model.vocabulary_.tokens)


def test_unknown_tokens_stand_beside_every_perplexity_and_most_of_them_warn(fitted):
    """E3: a model of Chinese asked about English."""
    assert fitted.evaluate(CHINESE)["perplexity"].note == "0 of 510 tokens unknown"
    assert fitted.evaluate(["我们学习猫"])["perplexity"].note == "1 of 5 tokens unknown"
    for ask in (fitted.evaluate, fitted.perplexity, fitted.log_prob):
        with pytest.warns(UserWarning, match=r"6 of 6 tokens \(100%\) are unknown to the fit"):
            found = ask(["the cat sat on the mat"])
    assert len(found) == 1


@pytest.mark.filterwarnings("ignore:the text is in a script")
def test_the_baseline_has_the_tokens_of_its_systems(tmp_path, monkeypatch, capsys):
    """E3 and E4."""
    (board,) = compare([gnomon.NGram(n=2, smoothing="additive", random_state=0)], Dataset("t", text=CHINESE))
    assert {line.score.data_space for line in board.lines} == {board.data_space}
    assert board.lines[0].name == "ngram" and "single characters" in board.data_space
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text("\n".join(CHINESE), encoding="utf-8")
    assert run(["fit", "ngram", "t.txt", "--n", "2", "--smoothing", "additive", "--out", "r"]) == 0
    assert "tokens unknown" in capsys.readouterr().out
