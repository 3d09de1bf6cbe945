"""Published encoders of texts from their folders: answers are those of transformers for the same text."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gnomon import BERT, ELECTRA, FineTuning, TransformerClassifier, load
from gnomon.cli.main import run as command
from gnomon.errors import UserValueError

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

TEXTS = ["The sun casts a shadow", "shadows of dials", "unseen zebras, at noon!", "", "the " * 9]
LABELS = [0, 1, 1, 0, 1]
PIECES = [
    "[PAD]", "[unused0]", "the", "sun", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cast", "##s", "a", "shadow", "of", "dial",
    "at", "noon", ",", "!", "un", "##seen",
]  # fmt: skip
SIZES = {
    "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
    "max_position_embeddings": 24, "initializer_range": 0.5,
}  # fmt: skip
SAME = {"n_layers": 2, "n_heads": 2, "n_embedding": 8, "n_hidden": 12, "window": 20, "random_state": 0, "epochs": 1}
WORDPIECE, BYTES = SAME | {"unit": "wordpiece"}, SAME | {"unit": "byte-bpe"}
STILL = {"learning_rate": 1e-12, "dropout": 0.0}


def wordpiece(folder):
    """A tokenizer.json with lower case, padding and truncation, as published ones have them."""
    tokenizer = tokenizers.BertWordPieceTokenizer({piece: i for i, piece in enumerate(PIECES)}, lowercase=True)
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding()
    tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def byte_bpe(folder):
    """A tokenizer.json of RoBERTa's kind, its special symbols in its order."""
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        TEXTS * 9, vocab_size=300, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def network(kind, config, folder, **options):
    """One with weights of chance, biases and norms too, saved in a folder."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = getattr(transformers, kind)(config(**SIZES | options)).eval()
        with torch.no_grad():
            for name, one in net.named_parameters():
                if one.ndim == 1:
                    one.copy_(0.3 * torch.randn(one.shape) + (1 if "LayerNorm.weight" in name else 0))
    net.save_pretrained(folder)
    return net


def asked(net, ids, segments=None):
    with torch.no_grad():
        given = {} if segments is None else {"token_type_ids": torch.tensor([segments])}
        return net(input_ids=torch.tensor([ids]), **given, output_hidden_states=True)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    net = network("BertForPreTraining", transformers.BertConfig, folder, vocab_size=23)
    return folder, net, wordpiece(folder)


def check_classifier(folder, net, encode, settings, longest=20):
    """Vectors of tokens' means are those of the network; of cut texts too."""
    start = FineTuning(folder, freeze=("encoder",))
    model = TransformerClassifier(**settings).fit(TEXTS, LABELS, initial=start)
    found = model.transform(TEXTS)
    for text, row in zip(TEXTS, found, strict=True):
        ids = encode(text)
        ids = ids if len(ids) <= longest else [*ids[: longest - 1], ids[-1]]
        wanted = asked(net, ids).hidden_states[-1][0].mean(0)
        np.testing.assert_allclose(row, wanted.numpy(), atol=1e-5)
    assert model.initial_.fresh == ("head.weight", "head.bias")
    return model, found


@pytest.mark.filterwarnings("ignore:.*will be cut")
def test_bert(bert, tmp_path):
    folder, net, tokenizer = bert
    model, found = check_classifier(folder, net, lambda text: tokenizer.encode(text).ids, WORDPIECE)
    assert (load(model.save(tmp_path / "run") or tmp_path / "run").transform(TEXTS) == found).all()
    again = TransformerClassifier(**WORDPIECE | STILL).fit(TEXTS, LABELS, initial=model)  # from the run of such a fit
    np.testing.assert_allclose(again.transform(TEXTS), found, atol=1e-5)
    check_classifier(folder, net, lambda text: tokenizer.encode(text).ids, WORDPIECE | {"window": 7}, 7)


def test_pooler_and_pairs_of_bert(bert):
    folder, net, tokenizer = bert
    pairs = [("The sun casts", "a shadow"), ("noon", "")]
    model = TransformerClassifier(**WORDPIECE, pooling="first")
    found = model.fit(pairs, [0, 1], initial=FineTuning(folder, freeze=("encoder",))).transform(pairs)
    for (a, b), row in zip(pairs, found, strict=True):
        given = tokenizer.encode(a, b)
        with torch.no_grad():
            wanted = net.bert(
                input_ids=torch.tensor([given.ids]), token_type_ids=torch.tensor([given.type_ids])
            ).pooler_output[0]
        np.testing.assert_allclose(row, wanted.numpy(), atol=1e-5)


def test_heads_of_bert(bert):
    folder, net, tokenizer = bert
    text = ["the sun casts", "a shadow", "", "noon of the dials", "at noon"] * 3
    model = BERT(**WORDPIECE | STILL).fit(text, initial=folder)
    assert model.initial_.fresh == ()
    given = tokenizer.encode("the sun casts", "a shadow")
    with torch.no_grad():
        told = net(input_ids=torch.tensor([given.ids]), token_type_ids=torch.tensor([given.type_ids]))
    wanted = told.seq_relationship_logits.softmax(1)[0, 0].item()  # transformers: 0 is the next one
    assert model.predict_is_next([("the sun casts", "a shadow")])[0] == pytest.approx(wanted, abs=1e-5)
    ids = tokenizer.encode("the sun at noon").ids
    ids[2] = PIECES.index("[MASK]")
    filled = dict(model.fill_mask("the <mask> at noon", k=15)[0])
    known = list(range(len(PIECES)))
    logits = asked(net, ids).prediction_logits[0, 2, known].softmax(0)
    assert len(filled) == 15
    for piece, p in filled.items():
        assert p == pytest.approx(logits[PIECES.index(piece)].item(), abs=1e-5)


def test_vocab_txt_in_place_of_tokenizer_json(bert, tmp_path):
    folder, net, tokenizer = bert
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    settings = WORDPIECE | {"window": 24}
    check_classifier(tmp_path, net, lambda text: tokenizer.encode(text).ids, settings)


@pytest.mark.filterwarnings("ignore:.*will be cut")
def test_electra(tmp_path):
    sizes = {"vocab_size": 20, "embedding_size": 6, "layer_norm_eps": 1e-3}
    net = network("ElectraForPreTraining", transformers.ElectraConfig, tmp_path, **sizes)
    tokenizer = wordpiece(tmp_path)
    check_classifier(tmp_path, net, lambda text: tokenizer.encode(text).ids, WORDPIECE)
    model = ELECTRA(**WORDPIECE | STILL, embedding_width=6).fit(TEXTS, initial=tmp_path)
    fresh = {name.split(".")[0] for name in model.initial_.fresh}
    assert fresh == {"generator", "head"} and "generator.tokens.weight" in model.initial_.copied
    found = model.predict_replaced(TEXTS[:3])
    for text, row in zip(TEXTS, found, strict=False):
        wanted = asked(net, tokenizer.encode(text).ids).logits.sigmoid()[0, 1:-1]
        np.testing.assert_allclose(row, wanted.numpy(), atol=1e-5)
    again = TransformerClassifier(**WORDPIECE | STILL).fit(TEXTS, LABELS, initial=model)
    np.testing.assert_allclose(again.model_.encoder.norm.eps, 1e-3)
    with pytest.raises(UserValueError, match=r"give embedding_width=6"):
        ELECTRA(**WORDPIECE).fit(TEXTS, initial=tmp_path)
    with pytest.raises(UserValueError, match=r"must be of bert or roberta, got electra"):
        BERT(**WORDPIECE).fit(TEXTS, initial=tmp_path)


def test_generator_of_electra_is_refused(tmp_path):
    network("ElectraForMaskedLM", transformers.ElectraConfig, tmp_path, vocab_size=20, embedding_size=8)
    wordpiece(tmp_path)
    with pytest.raises(UserValueError, match="is the generator of an ELECTRA"):
        ELECTRA(**WORDPIECE).fit(TEXTS, initial=tmp_path)


@pytest.mark.filterwarnings("ignore:.*will be cut")
def test_roberta(tmp_path):
    tokenizer = byte_bpe(tmp_path)
    sizes = {"vocab_size": tokenizer.get_vocab_size(), "type_vocab_size": 1, "layer_norm_eps": 1e-3}
    net = network("RobertaForMaskedLM", transformers.RobertaConfig, tmp_path, **sizes)

    def encode(text):
        return [0, *tokenizer.encode(text).ids, 2]

    check_classifier(tmp_path, net, encode, BYTES)
    check_classifier(tmp_path, net, encode, BYTES | {"window": 22}, 22)
    with pytest.raises(UserValueError, match=r"got window=23 \(initial\); give window=22"):
        TransformerClassifier(**BYTES | {"window": 23}).fit(TEXTS, LABELS, initial=tmp_path)
    model = BERT(**BYTES | STILL, next_sentence=False).fit(TEXTS, initial=tmp_path)
    assert {name.split(".")[1] for name in model.initial_.fresh} == {"pooler"}
    ids = encode("the sun")
    found = dict(model.fill_mask("sun <mask> noon", k=3)[0])
    before = tokenizer.encode("sun").ids  # transformers' <mask> takes the blank before it, too
    masked = [0, *before, 4, *tokenizer.encode(" noon").ids, 2]
    logits = asked(net, masked).logits[0, 1 + len(before)].softmax(0)
    for piece, p in found.items():
        assert p == pytest.approx(logits[tokenizer.token_to_id(piece)].item(), abs=1e-5)
    vectors = model.encode(["the sun"])[0]
    np.testing.assert_allclose(vectors, asked(net, ids).hidden_states[-1][0, 1:-1].numpy(), atol=1e-5)


def test_a_run_of_the_command_line_begins_from_a_folder(bert, tmp_path, capsys):
    rows = "".join(f'"{text}",{label}\n' for text, label in zip(TEXTS, LABELS, strict=True))
    (tmp_path / "reviews.csv").write_text("review,label\n" + rows)
    options = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in (WORDPIECE | {"window": 24}).items())
    start = f"--target label --columns review --initial {bert[0]} --out {tmp_path / 'run'}"
    given = f"fit transformer-classifier {tmp_path / 'reviews.csv'} {start} {options}".split()
    assert command(given) == 0, capsys.readouterr().err
    model = load(tmp_path / "run")
    assert model.vocabulary_.tokens[:3] == ("[unused0]", "the", "sun") and len(model.vocabulary_) == len(PIECES)
    assert command(["fit", "mlp", "iris", "--initial", str(bert[0])]) == 2
    assert "holds an encoder of texts, bert, got mlp" in capsys.readouterr().err


def test_other_settings_are_told_all_at_once(bert):
    wanted = "give unit=wordpiece, n_layers=2, n_heads=2, n_embedding=8, n_hidden=12, window=24"
    with pytest.raises(UserValueError, match=f"got unit=word, n_layers=3.*{wanted}$"):
        TransformerClassifier().fit(TEXTS, LABELS, initial=bert[0])
    with pytest.raises(
        UserValueError,
        match=r"got activation=relu, positions=none \(initial\); give activation=gelu, positions=learned$",
    ):
        BERT(**WORDPIECE, activation="relu", positions="none").fit(TEXTS, initial=bert[0])


def changed(folder, target, **facts):
    """The folder with another config.json."""
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text()) | facts
    (target / "config.json").write_text(json.dumps(config))
    return target


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"model_type": "distilbert"}, "must hold an encoder of texts, bert, electra, roberta, got model_type"),
        ({"hidden_act": "silu"}, "has hidden_act 'silu', which no encoder has here"),
        ({"is_decoder": True}, "has is_decoder True"),
        ({"hidden_size": None}, "must give hidden_size, got None"),
        ({"vocab_size": 7}, "vocab_size must be at least 20"),
    ],
)
def test_what_is_read_otherwise_elsewhere_is_refused(bert, tmp_path, facts, said):
    with pytest.raises(UserValueError, match=said) as raised:
        TransformerClassifier(**WORDPIECE).fit(TEXTS, LABELS, initial=changed(bert[0], tmp_path, **facts))
    assert "\n" not in str(raised.value)


def test_files_that_are_absent_or_pickles(bert, tmp_path):
    folder = changed(bert[0], tmp_path)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserValueError, match=r"has neither tokenizer\.json nor vocab\.txt"):
        TransformerClassifier(**WORDPIECE).fit(TEXTS, LABELS, initial=folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserValueError, match=r"is a pickle, which may run code.*convert it once: python -c .*v.clone"):
        TransformerClassifier(**WORDPIECE).fit(TEXTS, LABELS, initial=folder)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(UserValueError, match=r"has no model\.safetensors"):
        TransformerClassifier(**WORDPIECE).fit(TEXTS, LABELS, initial=folder)
