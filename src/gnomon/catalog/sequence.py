"""Networks for sequences: recurrent ones, and attention."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
    Entry(
        "rnn-lm", "Recurrent language model", "循环神经网络语言模型", "model",
        ("language",), "gnomon.systems.sequence.rnn_lm:RNNLM", "Elman 1990; Mikolov et al. 2010",
        ("DLN-184", "NLP-21"),
        {"n_hidden": 6, "n_embedding": 4, "window": 5, "batch_size": 4, "epochs": 15, "learning_rate": 0.03},
    ),
    Entry(
        "gru-lm", "Gated recurrent language model", "门控循环单元语言模型", "model",
        ("language",), "gnomon.systems.sequence.gru_lm:GRULM", "Cho et al. 2014",
        ("DLN-182",),
        {"n_hidden": 6, "n_embedding": 4, "window": 5, "batch_size": 4, "epochs": 15, "learning_rate": 0.03},
    ),
    Entry(
        "lstm-lm", "Long short-term memory language model", "长短期记忆语言模型", "model",
        ("language",), "gnomon.systems.sequence.lstm_lm:LSTMLM",
        "Hochreiter and Schmidhuber 1997; Sundermeyer, Schlüter and Ney 2012",
        ("DLN-187", "NLP-28"),
        {"n_hidden": 6, "n_embedding": 4, "window": 5, "batch_size": 4, "epochs": 15, "learning_rate": 0.03},
    ),
    Entry(
        "mrnn-lm", "Multiplicative recurrent language model", "乘法循环神经网络语言模型", "model",
        ("language",), "gnomon.systems.sequence.mrnn_lm:MRNNLM", "Sutskever, Martens and Hinton 2011",
        ("PRA-172",),
        {"unit": "word", "n_hidden": 6, "n_factors": 5, "n_embedding": 4, "window": 5, "batch_size": 4, "epochs": 15,
         "learning_rate": 0.03},
    ),
    Entry(
        "neural-ngram", "Neural n-gram language model", "神经 n 元语法语言模型", "model",
        ("language",), "gnomon.systems.sequence.neural_ngram:NeuralNGram",
        "Bengio, Ducharme, Vincent and Jauvin 2003",
        ("PRA-153",),
        {"n": 3, "n_hidden": 6, "n_embedding": 4, "batch_size": 32, "epochs": 15, "learning_rate": 0.03},
    ),
    Entry(
        "elmo", "Embeddings from language models (ELMo)", "双向语言模型词表示（ELMo）", "model",
        ("language",), "gnomon.systems.sequence.elmo:ELMo", "Peters et al. 2018",
        ("NLP-40", "NLP-41", "NLP-31"),
        {"n_hidden": 6, "n_layers": 1, "window": 5, "batch_size": 4, "epochs": 15, "learning_rate": 0.03},
    ),
    Entry(
        "sentence-vae", "Variational autoencoder of sentences", "句子变分自编码器", "model",
        ("language",), "gnomon.systems.sequence.sentence_vae:SentenceVAE", "Bowman et al. 2016",
        ("NLP-62", "NLP-63", "NLP-65", "NLP-67", "NLP-68", "NLP-69", "NLP-70", "NLP-71"),
        {"n_hidden": 6, "n_embedding": 4, "n_latent": 2, "batch_size": 4, "epochs": 8, "learning_rate": 0.03},
    ),
    Entry(
        "transformer-lm", "Transformer language model", "Transformer 语言模型", "model",
        ("language",), "gnomon.systems.sequence.transformer_lm:TransformerLM",
        "Vaswani et al. 2017; Radford et al. 2018",
        ("DLN-212", "DLN-213", "DLN-214", "DLN-215"),
        {"n_embedding": 8, "n_hidden": 8, "n_heads": 2, "n_layers": 1, "window": 8, "batch_size": 8, "epochs": 12,
         "learning_rate": 0.02},
    ),
    Entry(
        "longformer", "Longformer classifier of texts", "Longformer 文本分类器", "model",
        ("classify",), "gnomon.systems.sequence.longformer:Longformer",
        "Beltagy, Peters and Cohan 2020",
        ("NLP-58", "NLP-60", "NLP-61"),
        {"n_embedding": 8, "n_hidden": 8, "n_heads": 2, "n_layers": 1, "window": 16, "batch_size": 8, "epochs": 12,
         "learning_rate": 0.02},
        takes="texts, labels",
    ),
    Entry(
        "longformer-lm", "Longformer language model", "Longformer 语言模型", "model",
        ("language",), "gnomon.systems.sequence.longformer_lm:LongformerLM",
        "Beltagy, Peters and Cohan 2020",
        ("NLP-58", "NLP-59", "NLP-60", "NLP-61"),
        {"n_embedding": 8, "n_hidden": 8, "n_heads": 2, "n_layers": 1, "window": 8, "batch_size": 8, "epochs": 12,
         "learning_rate": 0.02},
    ),
    Entry(
        "transformer-classifier", "Transformer classifier of texts", "Transformer 文本分类器", "model",
        ("classify",), "gnomon.systems.sequence.transformer_classifier:TransformerClassifier",
        "Vaswani et al. 2017; Devlin, Chang, Lee and Toutanova 2019",
        ("NLP-55", "DLN-223"),
        {"n_embedding": 8, "n_hidden": 8, "n_heads": 2, "n_layers": 1, "window": 16, "batch_size": 8, "epochs": 12,
         "learning_rate": 0.02},
        takes="texts, labels",
    ),
    Entry(
        "transformer-tagger", "Transformer tagger of words", "Transformer 序列标注器", "model",
        ("tag",), "gnomon.systems.sequence.transformer_tagger:TransformerTagger",
        "Vaswani et al. 2017; Devlin, Chang, Lee and Toutanova 2019",
        ("NLP-55", "DLN-223"),
        {"n_embedding": 8, "n_hidden": 8, "n_heads": 2, "n_layers": 1, "window": 16, "batch_size": 8, "epochs": 12,
         "learning_rate": 0.02},
    ),
    Entry(
        "bert", "BERT", "BERT 双向编码器", "model",
        ("fill",), "gnomon.systems.sequence.bert:BERT", "Devlin, Chang, Lee and Toutanova 2019",
        ("DLN-219", "DLN-220", "DLN-221", "DLN-222", "NLP-51", "NLP-52", "NLP-53", "NLP-54"),
        {"n_embedding": 8, "n_hidden": 8, "n_heads": 2, "n_layers": 1, "window": 16, "batch_size": 8, "epochs": 30,
         "learning_rate": 0.02},
    ),
    Entry(
        "electra", "ELECTRA", "ELECTRA 替换词检测", "model",
        ("fill",), "gnomon.systems.sequence.electra:ELECTRA", "Clark, Luong, Le and Manning 2020",
        ("NLP-56", "NLP-57"),
        {"n_embedding": 8, "n_hidden": 8, "n_heads": 2, "n_layers": 1, "window": 16, "batch_size": 8, "epochs": 12,
         "learning_rate": 0.02},
    ),
    Entry(
        "seq2seq", "Sequence to sequence", "序列到序列", "model",
        ("translate",), "gnomon.systems.sequence.seq2seq:Seq2Seq",
        "Sutskever, Vinyals and Le 2014; Bahdanau, Cho and Bengio 2015",
        ("DLN-230", "DLN-231", "DLN-235", "NLP-32", "NLP-37", "PRA-173", "PRA-175", "PRA-176", "PRA-177",
         "PRA-178", "PRA-180"),
        {"n_hidden": 8, "n_embedding": 6, "epochs": 12, "batch_size": 8, "learning_rate": 0.03},
    ),
    Entry(
        "transformer", "Transformer for translation", "Transformer 翻译模型", "model",
        ("translate",), "gnomon.systems.sequence.transformer:Transformer", "Vaswani et al. 2017",
        ("DLN-216", "DLN-217", "DLN-218"),
        {"n_embedding": 8, "n_hidden": 8, "n_heads": 2, "n_layers": 1, "epochs": 12, "batch_size": 8,
         "learning_rate": 0.02},
    ),
    Entry(
        "neural-joint-model", "Neural joint model of phrases", "神经联合短语模型", "model",
        ("translate",), "gnomon.systems.sequence.neural_joint_model:NeuralJointModel",
        "Devlin et al. 2014; Schwenk 2012",
        ("PRA-174",),
        {"n": 3, "radius": 2, "n_hidden": 8, "n_embedding": 6, "epochs": 12, "batch_size": 32, "learning_rate": 0.03},
    ),
    Entry(
        "captioner", "Captioner (convolutional encoder, attentive decoder)", "图像描述（卷积编码器与注意力解码器）",
        "model", ("caption",), "gnomon.systems.sequence.captioner:Captioner",
        "Vinyals et al. 2015; Xu et al. 2015", ("PRA-181",),
        {"channels": (3, 4), "convolutions": 1, "n_hidden": 8, "n_embedding": 4, "epochs": 12, "batch_size": 8,
         "learning_rate": 0.03},
        takes="images, captions",
    ),
)  # fmt: skip
