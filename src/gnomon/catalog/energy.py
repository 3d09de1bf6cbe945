"""Energy models."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
    Entry(
        "rbm", "Restricted Boltzmann machine (harmonium)", "受限玻尔兹曼机", "model",
        ("density", "represent"), "gnomon.systems.energy.rbm:RBM", "Smolensky 1986; Hinton 2002",
        (
            "GEN-005", "GEN-006", "GEN-007", "GEN-008", "GEN-028", "GEN-030", "GEN-031", "INF-04", "INF-06", "INF-07",
            "INF-12", "INF-19", "INF-30", "INF-31",
            "INF-32", "INF-33", "INF-34", "INF-35", "INF-39", "INF-40", "INF-43", "INF-44", "INF-45", "INF-50",
            "INF-51", "INF-55", "INF-63", "INF-64", "INF-65", "BAY-101", "DLN-81", "DLN-82", "DLN-84", "DLN-86",
            "DLN-87", "GEN-034", "GEN-036", "GEN-142", "INF-46", "INF-49", "INF-57", "REP-158", "DLN-85", "REP-118",
            "INF-58",
        ),
        {"n_hidden": 3, "objective": "exact", "epochs": 20, "batch_size": None, "learning_rate": 0.1},
        takes="table from 0 to 1",
    ),
    Entry(
        "gaussian-rbm", "Gaussian-Bernoulli restricted Boltzmann machine", "高斯-伯努利受限玻尔兹曼机", "model",
        ("density", "represent"), "gnomon.systems.energy.gaussian_rbm:GaussianRBM",
        "Welling, Rosen-Zvi and Hinton 2004; Cho, Ilin and Raiko 2011",
        ("GEN-037", "DLN-83", "INF-47", "INF-48", "INF-52", "INF-53"),
        {"n_hidden": 3, "objective": "exact", "epochs": 20, "batch_size": None, "learning_rate": 0.05},
    ),
    Entry(
        "label-rbm", "Classification restricted Boltzmann machine (discriminative, generative, hybrid)",
        "分类受限玻尔兹曼机", "model", ("classify", "represent"), "gnomon.systems.energy.label_rbm:LabelRBM",
        "Larochelle and Bengio 2008", ("GEN-029", "GEN-059", "GEN-060", "REP-091"),
        {"n_hidden": 3, "objective": "exact", "epochs": 15, "batch_size": None, "learning_rate": 0.05},
    ),
    Entry(
        "boltzmann-machine", "Boltzmann machine, fully visible", "全可见玻尔兹曼机", "model",
        ("density",), "gnomon.systems.energy.boltzmann_machine:BoltzmannMachine",
        "Ackley, Hinton and Sejnowski 1985", ("GEN-001", "GEN-004", "GEN-009", "REP-140"),
        {"objective": "pseudolikelihood", "epochs": 30, "batch_size": None, "learning_rate": 0.1},
        takes="table of 0 and 1",
    ),
    Entry(
        "hidden-boltzmann-machine", "Boltzmann machine with hidden units", "含隐单元玻尔兹曼机", "model",
        ("density", "represent"), "gnomon.systems.energy.hidden_boltzmann_machine:HiddenBoltzmannMachine",
        "Ackley, Hinton and Sejnowski 1985", ("GEN-002",),
        {"n_hidden": 2, "objective": "pcd", "epochs": 60, "batch_size": None, "learning_rate": 0.1},
        takes="table of 0 and 1",
    ),
    Entry(
        "semi-restricted-rbm", "Semi-restricted Boltzmann machine", "半受限玻尔兹曼机", "model",
        ("density", "represent"), "gnomon.systems.energy.semi_restricted_rbm:SemiRestrictedRBM",
        "Osindero and Hinton 2008", ("INF-73",),
        {"n_hidden": 3, "objective": "pcd", "epochs": 60, "batch_size": None, "learning_rate": 0.1},
        takes="table of 0 and 1",
    ),
    Entry(
        "dbm", "Deep Boltzmann machine", "深度玻尔兹曼机", "model", ("density", "represent"),
        "gnomon.systems.energy.dbm:DBM", "Salakhutdinov and Hinton 2009",
        (
            "GEN-018", "GEN-019",
            "GEN-020", "GEN-021", "GEN-022", "GEN-023", "GEN-024", "GEN-025", "GEN-026", "GEN-032",
            "GEN-033", "GEN-035", "INF-41", "INF-103",
        ),
        {
            "hidden": (4, 3), "objective": "exact", "pretrain_epochs": 0, "epochs": 60, "batch_size": None,
            "learning_rate": 0.3,
        },
        takes="table from 0 to 1",
    ),
    Entry(
        "conv-rbm", "Convolutional restricted Boltzmann machine", "卷积受限玻尔兹曼机", "model",
        ("density", "represent"), "gnomon.systems.energy.conv_rbm:ConvRBM",
        "Desjardins and Bengio 2008; Lee, Grosse, Ranganath and Ng 2009", ("GEN-050", "GEN-051", "GEN-053"),
        {
            "n_maps": 2, "kernel": (64, 64), "mode": "valid", "objective": "exact", "epochs": 20,
            "batch_size": None, "learning_rate": 0.1,
        },
        takes="table from 0 to 1",
    ),
    Entry(
        "conv-dbm", "Convolutional deep Boltzmann machine (convolutional deep belief network)",
        "卷积深度玻尔兹曼机 (卷积深度信念网络)", "model", ("density", "represent"),
        "gnomon.systems.energy.conv_dbm:ConvDBM", "Lee, Grosse, Ranganath and Ng 2009", ("GEN-054",),
        {
            "n_maps": (2, 2), "kernel": (64, 64), "mode": "valid", "region": (1, 1), "objective": "exact",
            "pretrain_epochs": 0, "epochs": 60, "batch_size": None, "learning_rate": 0.05,
        },
        takes="table from 0 to 1",
    ),
    Entry(
        "spike-and-slab-rbm", "Spike-and-slab restricted Boltzmann machine", "尖峰-平板受限玻尔兹曼机", "model",
        ("density", "represent"), "gnomon.systems.energy.spike_and_slab_rbm:SpikeAndSlabRBM",
        "Courville, Bergstra and Bengio 2011", ("GEN-044", "GEN-045", "GEN-046"),
        {"n_hidden": 3, "slab_dim": 2, "objective": "cd", "epochs": 20, "batch_size": None, "learning_rate": 0.02},
    ),
    Entry(
        "conv-ssrbm", "Convolutional spike-and-slab restricted Boltzmann machine", "卷积尖峰-平板受限玻尔兹曼机",
        "model", ("density", "represent"), "gnomon.systems.energy.conv_ssrbm:ConvSSRBM",
        "Courville, Desjardins, Bergstra and Bengio 2014", ("GEN-047",),
        {
            "n_maps": 2, "kernel": (64, 64), "mode": "valid", "slab_dim": 2, "objective": "cd", "epochs": 20,
            "batch_size": None, "learning_rate": 0.02,
        },
    ),
    Entry(
        "dbn", "Deep belief network", "深度信念网络", "model", ("density", "represent"),
        "gnomon.systems.energy.dbn:DBN", "Hinton, Osindero and Teh 2006",
        ("GEN-010", "GEN-011", "GEN-012", "GEN-013", "GEN-014", "GEN-015", "GEN-017", "INF-66"),
        {
            "hidden": (4, 3), "objective": "exact", "lift": "means", "epochs": 60, "tune_epochs": 0, "batch_size": None,
            "learning_rate": 0.3,
        },
        takes="table from 0 to 1",
    ),
    Entry(
        "dbn-classifier", "Multilayer perceptron begun by a deep belief network", "深度信念网络初始化的多层感知机",
        "model", ("classify",), "gnomon.systems.energy.dbn_classifier:DBNClassifier",
        "Hinton, Osindero and Teh 2006; Mohamed, Dahl and Hinton 2012", ("GEN-016", "PRA-137"),
        {
            "hidden": (6, 4), "objective": "exact", "pretrain_epochs": 5, "epochs": 60, "batch_size": None,
            "learning_rate": 0.1,
        },
    ),
    Entry(
        "dbm-classifier", "Multilayer perceptron that a deep Boltzmann machine becomes (mean-field features)",
        "深度玻尔兹曼机分类器", "model", ("classify",), "gnomon.systems.energy.dbm_classifier:DBMClassifier",
        "Salakhutdinov and Hinton 2009; Goodfellow, Bengio and Courville 2016", ("GEN-027",),
        {
            "hidden": (6, 4), "pretrain_epochs": 5, "joint_epochs": 3, "epochs": 60, "batch_size": None,
            "pretrain_rate": 0.05, "learning_rate": 0.1,
        },
        takes="table from 0 to 1, labels",
    ),
    Entry(
        "deep-autoencoder", "Deep autoencoder begun by restricted Boltzmann machines",
        "受限玻尔兹曼机初始化的深度自编码器", "model", ("represent",),
        "gnomon.systems.energy.deep_autoencoder:DeepAutoencoder", "Hinton and Salakhutdinov 2006", ("REP-042",),
        {
            "hidden": (4,), "n_latent": 2, "objective": "exact", "pretrain_epochs": 5, "epochs": 60, "batch_size": None,
            "learning_rate": 0.05,
        },
        takes="table from 0 to 1",
    ),
    Entry(
        "conditional-rbm", "Conditional restricted Boltzmann machine", "条件受限玻尔兹曼机", "model", ("regress",),
        "gnomon.systems.energy.conditional_rbm:ConditionalRBM", "Mnih, Larochelle and Hinton 2011", ("GEN-055",),
        {"n_hidden": 3, "objective": "exact", "epochs": 20, "batch_size": None, "learning_rate": 0.05},
    ),
    Entry(
        "autoregressive-rbm", "Conditional restricted Boltzmann machine of time series", "时间序列条件受限玻尔兹曼机",
        "model", ("density",), "gnomon.systems.energy.autoregressive_rbm:AutoregressiveRBM",
        "Taylor, Hinton and Roweis 2007", ("GEN-056",),
        {"n_hidden": 3, "order": 1, "objective": "exact", "epochs": 20, "batch_size": None, "learning_rate": 0.05},
        takes="table of 0 and 1",
    ),
    Entry(
        "rnn-rbm", "Recurrent network with a restricted Boltzmann machine of each frame", "循环神经网络受限玻尔兹曼机",
        "model", ("density",), "gnomon.systems.energy.rnn_rbm:RNNRBM",
        "Boulanger-Lewandowski, Bengio and Vincent 2012", ("GEN-058",),
        {
            "n_hidden": 3, "n_recurrent": 4, "objective": "exact", "epochs": 20, "batch_size": None,
            "learning_rate": 0.05,
        },
        takes="table of 0 and 1",
    ),
    Entry(
        "rtrbm", "Recurrent temporal restricted Boltzmann machine", "循环时序受限玻尔兹曼机", "model", ("density",),
        "gnomon.systems.energy.rtrbm:RTRBM", "Sutskever, Hinton and Taylor 2009", ("GEN-057",),
        {"n_hidden": 4, "objective": "exact", "epochs": 20, "batch_size": None, "learning_rate": 0.05},
        takes="table of 0 and 1",
    ),
    Entry(
        "factored-conditional-rbm", "Factored conditional restricted Boltzmann machine with styles",
        "因子化条件受限玻尔兹曼机", "model", ("density",),
        "gnomon.systems.energy.factored_conditional_rbm:FactoredConditionalRBM", "Taylor and Hinton 2009",
        ("GEN-057",),
        {
            "n_hidden": 3, "order": 4, "n_factors": 8, "objective": "exact", "epochs": 60, "batch_size": None,
            "learning_rate": 0.1,
        },
        takes="table of 0 and 1, labels",
    ),
    Entry(
        "mcrbm", "Mean and covariance restricted Boltzmann machine", "均值-协方差受限玻尔兹曼机", "model",
        ("density", "represent"), "gnomon.systems.energy.mcrbm:MCRBM", "Ranzato and Hinton 2010",
        ("GEN-039", "GEN-040"),
        {
            "n_mean": 2, "n_covariance": 2, "objective": "exact", "epochs": 20, "batch_size": None,
            "learning_rate": 0.05,
        },
    ),
    Entry(
        "product-of-t", "Product of Student-t experts (PoT, mPoT)", "学生t专家乘积", "model", ("density", "represent"),
        "gnomon.systems.energy.product_of_t:ProductOfT",
        "Welling, Hinton and Osindero 2003; Ranzato, Mnih and Hinton 2010", ("GEN-042", "GEN-043"),
        {"n_experts": 2, "n_mean": 2, "epochs": 20, "batch_size": None, "learning_rate": 0.05},
    ),
    Entry(
        "product-of-experts", "Energy-based model: product of experts", "专家乘积能量模型", "model", ("density",),
        "gnomon.systems.energy.product_of_experts:ProductOfExperts",
        "Hinton 2002; Gutmann and Hyvärinen 2010", ("REP-139", "REP-141", "BAY-100"),
        {"objective": "score-matching", "epochs": 20, "batch_size": None, "learning_rate": 0.05},
    ),
    Entry(
        "class-gated-rbm", "Class-gated (third-order) restricted Boltzmann machine", "类别门控受限玻尔兹曼机", "model",
        ("classify", "represent"), "gnomon.systems.energy.class_gated_rbm:ClassGatedRBM",
        "Memisevic, Zach, Hinton and Pollefeys 2010", ("GEN-063", "GEN-064"),
        {"n_hidden": 2, "n_nuisance": 1, "objective": "exact", "epochs": 15, "batch_size": None, "learning_rate": 0.05},
    ),
    Entry(
        "pointwise-gated-rbm", "Point-wise gated Boltzmann machine", "逐点门控玻尔兹曼机", "model",
        ("density", "represent"), "gnomon.systems.energy.pointwise_gated_rbm:PointwiseGatedRBM",
        "Sohn, Zhou, Lee and Lee 2013", ("GEN-065",),
        {"n_hidden": 2, "objective": "exact", "epochs": 30, "batch_size": None, "learning_rate": 0.1},
        takes="table from 0 to 1",
    ),
    Entry(
        "harmonium", "Exponential-family harmonium", "指数族簧风琴模型", "model", ("density", "represent"),
        "gnomon.systems.energy.harmonium:Harmonium", "Welling, Rosen-Zvi and Hinton 2004", ("GEN-038", "REP-157"),
        {"n_hidden": 3, "objective": "exact", "epochs": 20, "batch_size": None, "learning_rate": 0.05},
    ),
    Entry(
        "gated-rbm", "Gated (three-way) restricted Boltzmann machine", "门控受限玻尔兹曼机", "model",
        ("regress",), "gnomon.systems.energy.gated_rbm:GatedRBM", "Memisevic and Hinton 2007, 2010", ("GEN-062",),
        {"n_hidden": 2, "objective": "exact", "epochs": 25, "batch_size": None, "learning_rate": 0.2},
    ),
    Entry(
        "higher-order-boltzmann-machine", "Higher-order Boltzmann machine", "高阶玻尔兹曼机", "model",
        ("density",), "gnomon.systems.energy.higher_order:HigherOrderBoltzmannMachine", "Sejnowski 1986", ("GEN-061",),
        {"objective": "pseudolikelihood", "epochs": 30, "batch_size": None, "learning_rate": 0.1},
        takes="table of 0 and 1",
    ),
)  # fmt: skip
