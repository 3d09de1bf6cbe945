"""Published encoders of texts: folders of config.json, model.safetensors and a tokenizer, as transformers has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.data.packing import SPECIALS
from gnomon.data.subword_training import library
from gnomon.data.tokenizers import Subwords, SubwordTokenizer
from gnomon.errors import UserValueError

__all__ = ["Published"]

WEIGHTS, PICKLE = "model.safetensors", "pytorch_model.bin"
ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
"""What transformers calls the special symbols, in our order."""
BRACKETS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
NAMES = {"bert": BRACKETS, "electra": BRACKETS, "roberta": ("<pad>", "<unk>", "<s>", "</s>", "<mask>")}
"""The special symbols of each family, where no file says others."""

SIZES = {
    "hidden_size": int, "num_hidden_layers": int, "num_attention_heads": int, "intermediate_size": int,
    "max_position_embeddings": int, "hidden_act": str,
}  # fmt: skip
"""What a config.json must give."""


@dataclass(frozen=True)
class Published:
    """What stands beside the weights of a published encoder of texts.

    Attributes
    ----------
    folder : Path
    config : mapping
        Its config.json.
    unit : {"wordpiece", "byte-bpe"}
        What its tokenizer cuts texts into.
    vocabulary : Subwords
        Its pieces behind `gnomon.data.packing.SPECIALS`.
    ids : int64 array of shape (len(vocabulary),)
        What it calls each of our ids.
    """

    folder: Path
    config: Mapping[str, Any]
    unit: str
    vocabulary: Subwords
    ids: NDArray[np.int64]

    @staticmethod
    def found(folder: Path) -> bool:
        """Whether a folder is one of these, rather than a run."""
        return "model_type" in _json(folder / "config.json")

    @classmethod
    def of(cls, folder: Path, convert: str) -> Self:
        """What a folder says.

        Parameters
        ----------
        folder : Path
        convert : str
            The command that makes weights of a pickle, with ``{old}`` and ``{new}``.

        Raises
        ------
        UserValueError
            Another kind of network, weights that are not there or in a pickle, no tokenizer, one of another kind.
        """
        config = _json(folder / "config.json")
        family = config["model_type"]
        if family not in NAMES:
            what = f"{folder} must hold an encoder of texts, {', '.join(NAMES)}, got model_type {family!r}"
            raise UserValueError(what, "initial", "give another folder")
        absent = [name for name in SIZES if not isinstance(config.get(name), SIZES[name])]
        if absent:
            what = f"config.json must give {absent[0]}, got {config.get(absent[0])!r}"
            raise UserValueError(what, str(folder), "take the folder as transformers saved it")
        _check_weights(folder, convert)
        tokenizer = _tokenizer(folder)
        ids = {token: i for i, token in enumerate(tokenizer.tokens)}
        names = _special_names(folder, family)
        absent = [name for name in names if name not in ids]
        if absent:
            what = f"the tokenizer must have the special symbols {', '.join(names)}, got none named {absent[0]!r}"
            raise UserValueError(what, str(folder), "name them in its tokenizer_config.json")
        vocabulary = Subwords(tokenizer, SPECIALS, names)
        theirs = np.array([ids[name] for name in (*names, *vocabulary.tokens)], np.int64)
        if int(theirs.max()) >= config.get("vocab_size", len(ids)):
            what = f"vocab_size must be at least {int(theirs.max()) + 1}, as many as its tokenizer has pieces"
            what += f", got {config['vocab_size']}"
            raise UserValueError(what, f"{folder / 'config.json'}", "give the tokenizer of these weights")
        return cls(folder, config, tokenizer.unit, vocabulary, theirs)

    @property
    def family(self) -> str:
        """``bert``, ``electra`` or ``roberta``."""
        return str(self.config["model_type"])

    @property
    def weights(self) -> Path:
        """The file of weights."""
        return self.folder / WEIGHTS

    @property
    def epsilon(self) -> float:
        """Of its norms."""
        return float(self.config.get("layer_norm_eps", 1e-12))

    @property
    def width(self) -> int:
        """Of its layers."""
        return int(self.config["hidden_size"])

    @property
    def embedding_width(self) -> int:
        """Of the vectors of its tokens."""
        return int(self.config.get("embedding_size", self.width)) if self.family == "electra" else self.width

    @property
    def skipped(self) -> int:
        """Places before the first one that is used: RoBERTa counts from the place behind its ``<pad>``."""
        pad = self.config.get("pad_token_id")
        return (2 if pad is None else int(pad) + 1) if self.family == "roberta" else 0

    @property
    def longest(self) -> int:
        """Tokens of a sequence, the special ones among them."""
        return int(self.config["max_position_embeddings"]) - self.skipped


def _json(file: Path) -> dict[str, Any]:
    """A file of JSON; nothing where there is none, or another kind of file."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _check_weights(folder: Path, convert: str) -> None:
    if (folder / WEIGHTS).is_file():
        return
    old, new = folder / PICKLE, folder / WEIGHTS
    if old.is_file():
        command = convert.format(old=quote(str(old)), new=quote(str(new)))
        raise UserValueError(f"{old} is a pickle, which may run code", "initial", f"convert it once: {command}")
    raise UserValueError(f"{folder} has no {WEIGHTS}", "initial", "put the weights beside its config.json, in one file")


def _special_names(folder: Path, family: str) -> tuple[str, ...]:
    """What a tokenizer calls the special symbols, in our order."""
    facts = _json(folder / "special_tokens_map.json") | _json(folder / "tokenizer_config.json")
    given = [facts.get(role) for role in ROLES]
    names = [one.get("content") if isinstance(one, dict) else one for one in given]
    return tuple(str(one or usual) for one, usual in zip(names, NAMES[family], strict=True))


def _tokenizer(folder: Path) -> SubwordTokenizer:
    """That of tokenizer.json, or of the pieces of a vocab.txt."""
    if (folder / "tokenizer.json").is_file():
        return SubwordTokenizer.from_file(folder / "tokenizer.json")
    if (folder / "vocab.txt").is_file():
        return _from_pieces(folder)
    what = f"{folder} has neither tokenizer.json nor vocab.txt"
    raise UserValueError(
        what, "initial", "save its tokenizer there: AutoTokenizer.from_pretrained(...).save_pretrained"
    )


def _from_pieces(folder: Path) -> SubwordTokenizer:
    """BERT's own rule with the pieces of a vocab.txt, one a line."""
    tokenizers, facts = library(), _json(folder / "tokenizer_config.json")
    pieces = (folder / "vocab.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    unknown = _special_names(folder, "bert")[1]
    ids = {piece.removesuffix("\r"): i for i, piece in enumerate(pieces)}
    found = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token=unknown))
    found.normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=facts.get("tokenize_chinese_chars", True),
        strip_accents=facts.get("strip_accents"), lowercase=facts.get("do_lower_case", True),
    )  # fmt: skip
    found.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    found.decoder = tokenizers.decoders.WordPiece(prefix="##")
    return SubwordTokenizer(found)
