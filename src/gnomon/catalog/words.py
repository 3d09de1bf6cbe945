"""Words by which systems and parts are looked for, beside their names and titles: synonyms, and Chinese.

Add a line here when people call a thing by a name that neither its title nor its docstring has.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

__all__ = ["GLOSSARY", "OF_FAMILIES", "OF_SYSTEMS", "OF_TASKS", "english", "folded"]

OF_TASKS: Mapping[str, str] = {
    "classify": "classification classifier 分类 分类器 判别 监督学习",
    "cluster": "clustering 聚类 分群 分簇 无监督学习",
    "density": "density estimation 密度估计 概率密度 生成模型 异常检测 anomaly outlier detection",
    "generate": "generation generative 生成 样本生成 生成模型",
    "language": "language modeling 语言模型 语言建模 文本生成",
    "rank": "ranking recommendation recommender 排序 推荐 推荐系统 隐式反馈",
    "recommend": "recommendation recommender collaborative filtering 推荐 推荐系统 协同过滤 评分预测",
    "regress": "regression 回归 监督学习",
    "represent": "representation dimension reduction dimensionality embedding 降维 表示学习 特征提取 嵌入",
    "translate": "translation 翻译 机器翻译 序列转换",
}
"""What the tasks are called."""

OF_FAMILIES: Mapping[str, str] = {
    "linear": "线性模型 linear model",
    "neural": "neural network 神经网络 人工神经网络 深度学习 前馈网络",
    "kernel": "kernel method 核方法",
    "trees": "tree 树模型",
    "ensemble": "ensemble 集成学习 集成方法",
    "factors": "factor model 因子模型 主成分 主成分分析 因子分析",
    "mixtures": "mixture model 混合模型",
    "energy": "energy-based model 能量模型 神经网络 深度学习",
    "variational": "neural network 神经网络 深度学习 变分推断",
    "adversarial": "neural network 神经网络 深度学习 对抗网络",
    "vision": "neural network 神经网络 深度学习 计算机视觉 图像分类",
    "text": "natural language processing 自然语言处理 统计语言模型",
    "sequence": "neural network recurrent 神经网络 循环神经网络 深度学习 自然语言处理",
    "recommend": "推荐系统 协同过滤 矩阵分解",
}
"""What the families of systems are called, by the package that they stand in."""

OF_SYSTEMS: Mapping[str, str] = {
    "linear-regression": "OLS 线性模型 普通最小二乘 岭回归 Lasso 套索回归 弹性网",
    "bayesian-regression": "贝叶斯回归 bayesian ridge",
    "softmax-regression": "逻辑斯谛回归 多分类逻辑回归 multinomial logit 最大熵",
    "logistic-regression": "logit 逻辑斯谛回归 对数几率回归 二分类",
    "mlp": "MLP 多层感知器 全连接网络 feedforward deep neural network DNN BP神经网络",
    "mlp-regression": "MLP 多层感知器 全连接网络 feedforward deep neural network DNN BP神经网络",
    "metric-network": "siamese triplet 孪生网络 对比学习 度量学习",
    "svm": "SVM SVC 支持向量",
    "support-vector-regression": "SVR 支持向量",
    "decision-tree": "CART 分类树",
    "regression-tree": "CART 决策树",
    "bagging": "自助聚合 bootstrap aggregating",
    "bagging-regression": "自助聚合 bootstrap aggregating",
    "random-forest": "RF 随机决策森林",
    "random-forest-regression": "RF 随机决策森林",
    "extra-trees": "ExtraTrees 极度随机树",
    "extra-trees-regression": "ExtraTrees 极度随机树",
    "adaboost": "boosting 提升法 自适应增强",
    "gradient-boosting": "GBDT GBM boosting 梯度提升树 梯度提升决策树 提升树",
    "gradient-boosting-regression": "GBDT GBM boosting 梯度提升树 梯度提升决策树 提升树",
    "histogram-boosting": "GBDT LightGBM XGBoost boosting 梯度提升树 梯度提升决策树 提升树",
    "histogram-boosting-regression": "GBDT LightGBM XGBoost boosting 梯度提升树 梯度提升决策树 提升树",
    "stacking": "stacked generalization 堆叠泛化",
    "stacking-regression": "stacked generalization 堆叠泛化",
    "ppca": "PCA 主成分 主成分分析 概率PCA principal components",
    "bernoulli-mixture": "LCA 潜类别分析 二值数据",
    "gaussian-mixture": "GMM 混合高斯 高斯混合 EM算法",
    "gaussian-classifier": "LDA QDA 线性判别 线性判别分析 二次判别分析 判别分析 朴素贝叶斯 naive bayes",
    "kmeans": "K均值 K-均值 K平均 k-means kmeans++",
    "rbm": "RBM 玻尔兹曼机 波尔兹曼机",
    "vae": "VAE 变分自动编码器 自编码器 autoencoder",
    "gan": "GAN 生成式对抗网络",
    "conditional-gan": "CGAN 条件GAN 生成式对抗网络",
    "dcgan": "DCGAN 卷积神经网络 CNN 生成式对抗网络",
    "lenet": "CNN 卷积神经网络 卷积网络 convolutional neural network convnet 图像分类",
    "ngram": "n元模型 N元文法 二元语法 三元语法 bigram trigram markov",
    "rnn-lm": "RNN 循环神经网络 递归神经网络",
    "gru-lm": "GRU RNN 循环神经网络 门控循环单元",
    "seq2seq": "encoder decoder 编码器解码器 机器翻译 注意力机制",
    "matrix-factorization": "SVD ALS 协同过滤 矩阵分解 隐语义模型",
    "implicit-factorization": "ALS 隐式反馈 协同过滤",
    "pmf": "PMF 协同过滤",
}
"""What single systems are called besides."""

GLOSSARY: Mapping[str, str] = {
    "激活函数": "activation", "损失函数": "loss", "损失": "loss", "卷积": "convolution", "注意力": "attention",
    "注意力机制": "attention", "归一化": "normal", "批归一化": "batch norm", "池化": "pool", "丢弃法": "dropout",
    "随机失活": "dropout", "嵌入": "embedding", "初始化": "initializer", "循环": "recurrent", "优化器": "optimizer",
    "学习率": "learning rate", "调度": "schedule", "早停": "early stop", "采样": "sampl", "抽样": "sampl",
    "吉布斯采样": "gibbs", "吉布斯": "gibbs", "蒙特卡罗": "monte carlo", "蒙特卡洛": "monte carlo",
    "马尔可夫链": "markov chain", "重要性采样": "importance", "变分": "variational", "变分推断": "variational",
    "后验": "posterior", "先验": "prior", "似然": "likelihood", "对数似然": "log likelihood", "期望最大化": "em",
    "指标": "metric", "准确率": "accuracy", "召回率": "recall", "精确率": "precision", "混淆矩阵": "confusion",
    "校准": "calibration", "困惑度": "perplexity", "互信息": "mutual information", "熵": "entropy",
    "交叉熵": "cross-entropy", "散度": "divergence", "距离": "distance", "相似度": "similarity",
    "数据集": "data set", "预处理": "preprocess", "标准化": "standardi",
    "分词": "token", "词表": "vocabulary", "词汇表": "vocabulary", "编码": "encod", "独热编码": "one-hot",
    "独热": "one-hot", "评分": "rating", "三元组": "triple", "知识图谱": "knowledge graph", "负采样": "negative",
      "梯度": "gradient",  "束搜索": "beam",
    "集束搜索": "beam", "贪心": "greedy", "解码": "decod", "图": "graph", "因子图": "factor graph",
    "贝叶斯网络": "directed",  "高斯分布": "gaussian", "正态分布": "normal",
    "伯努利分布": "bernoulli", "泊松分布": "poisson", "狄利克雷": "dirichlet", "分布": "distribution", "核": "kernel",
    "线性算子": "operator", "噪声": "noise", "玻尔兹曼机": "boltzmann", "对比散度": "contrastive divergence",
     "任务": "task", "分类": "classif", "聚类": "cluster", "回归": "regress",
    "排序": "rank", "推荐": "recommend", "翻译": "translat", "异常检测": "anomaly", "过拟合": "overfit",
    "偏差方差": "bias variance",  "量化": "quanti",
}  # fmt: skip
"""Chinese words for parts, each with the English one that finds them."""


def folded(text: str) -> str:
    """Text as it is compared: without differences of case, width, blanks, hyphens and underscores.

    Examples
    --------
    >>> folded("Ｋ 均值"), folded("Random_Forest") == folded("random forest")
    ('k均值', True)
    """
    return re.sub(r"[\s_\-\u2010-\u2015]+", "", unicodedata.normalize("NFKC", text).casefold())


def english(word: str) -> str:
    """The English word for parts that a Chinese one stands for; other words as they are.

    Examples
    --------
    >>> english("注意力"), english("attention")
    ('attention', 'attention')
    """
    return GLOSSARY.get(folded(word), word)
