"""Words by which systems and parts are looked for, beside their names and titles: synonyms, and Chinese.

Add a line here when people call a thing by a name that neither its title nor its docstring has.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

__all__ = [
    "FAMILY_TITLES", "GLOSSARY", "NEEDS", "OF_FAMILIES", "OF_NEEDS", "OF_SYSTEMS", "OF_TASKS", "english", "folded",
]  # fmt: skip

NEEDS: Mapping[str, str] = {
    "caption": "images, captions",
    "classify": "table, labels",
    "cluster": "table",
    "density": "table",
    "detect": "images, boxes",
    "embed": "text",
    "fill": "text",
    "generate": "table",
    "language": "text",
    "rank": "users and items",
    "recommend": "ratings",
    "regress": "table, numeric target",
    "represent": "table",
    "segment": "images, labels of pixels",
    "tag": "texts, tags",
    "translate": "pairs of texts",
}
"""What the systems of a task are fitted to, unless their lines in the catalog say otherwise."""

OF_NEEDS: Mapping[str, str] = {
    "caption": "images, captions",
    "labels": "标签 类标 有标签",
    "boxes": "边界框 标注框 bounding boxes",
    "captions": "图像描述 字幕 说明文字",
    "labels of pixels": "像素标签 掩码 mask annotation",
    "tags": "词性标签 BIO 标签 标注",
    "numeric target": "数值目标 连续目标",
    "images": "图像 图片",
    "text": "文本 语料",
    "texts": "文本 文档 语料",
    "ratings": "评分 打分",
    "missing": "missing values missing cells NaN 缺失值 缺失数据 空值",
}
"""What that is called, and cells that may be missing."""

FAMILY_TITLES: Mapping[str, str] = {
    "linear": "Linear models",
    "neural": "Neural networks",
    "kernel": "Kernel methods",
    "trees": "Trees",
    "ensemble": "Ensembles",
    "factors": "Factor models",
    "mixtures": "Mixtures and clusters",
    "energy": "Energy-based models",
    "variational": "Variational autoencoders",
    "adversarial": "Adversarial networks",
    "autoregressive": "Autoregressive densities",
    "vision": "Networks for images",
    "text": "Models of text by counting",
    "sequence": "Networks for sequences",
    "recommend": "Recommenders",
}
"""What the families of systems are called in lists."""

OF_TASKS: Mapping[str, str] = {
    "caption": "captioning image to text transcription OCR 图像描述 看图说话 图像字幕 转录 文字识别",
    "classify": "classification classifier 分类 分类器 判别 监督学习 分类算法 分类模型",
    "cluster": "clustering 聚类 分群 分簇 无监督学习 聚类算法 聚类分析",
    "density": "density estimation 密度估计 概率密度 生成模型 anomaly outlier detection 异常检测 离群点检测 离群值检测",
    "embed": "word embedding vectors of words distributional semantics 词向量 词嵌入 词表示 分布式语义",
    "fill": "masked language modeling pretraining cloze 掩码语言模型 遮蔽语言模型 预训练 自监督 完形填空",
    "generate": "generation generative 生成 样本生成 生成模型 图像生成 图片生成",
    "language": "language modeling 语言模型 语言建模 文本生成",
    "rank": "ranking recommendation recommender 排序 推荐 推荐系统 隐式反馈 推荐算法",
    "recommend": "recommendation recommender collaborative filtering 推荐 推荐系统 协同过滤 评分预测 推荐算法",
    "regress": "regression 回归 监督学习 回归分析 回归算法 回归模型 预测数值",
    "detect": "object detection bounding boxes localization 目标检测 物体检测 边界框 定位",
    "segment": "segmentation semantic dense prediction 分割 图像分割 语义分割 像素分类 像素级预测 密集预测",
    "tag": "tagging sequence labeling part of speech POS named entity NER chunking 序列标注 词性标注 命名实体识别 分块",
    "represent": "representation dimension reduction dimensionality embedding 降维 表示学习 特征提取 嵌入",
    "translate": "translation 翻译 机器翻译 序列转换 神经机器翻译",
}
"""What the tasks are called."""

OF_FAMILIES: Mapping[str, str] = {
    "linear": "线性模型 linear model",
    "neural": "neural network deep learning 神经网络 人工神经网络 深度学习 前馈网络",
    "kernel": "kernel method 核方法",
    "trees": "tree 树模型",
    "ensemble": "ensemble 集成学习 集成方法 集成算法",
    "factors": "factor model 因子模型 主成分 主成分分析 因子分析",
    "mixtures": "mixture model 混合模型",
    "energy": "energy-based model 能量模型 神经网络 深度学习",
    "variational": "neural network deep learning 神经网络 深度学习 变分推断",
    "adversarial": "neural network deep learning 神经网络 深度学习 对抗网络",
    "autoregressive": "autoregressive chain rule 自回归 自回归模型 链式法则 生成模型",
    "vision": "neural network deep learning 神经网络 深度学习 计算机视觉 图像分类 图像识别 图片分类 手写数字识别",
    "text": "natural language processing 自然语言处理 统计语言模型",
    "sequence": "neural network deep learning recurrent 神经网络 循环神经网络 深度学习 自然语言处理",
    "recommend": "推荐系统 协同过滤 矩阵分解",
}
"""What the families of systems are called, by the package that they stand in."""

OF_SYSTEMS: Mapping[str, str] = {
    "linear-regression": "OLS 线性模型 普通最小二乘 岭回归 Lasso 套索回归 弹性网 最小二乘法 多元线性回归 线性拟合",
    "bayesian-regression": "贝叶斯回归 bayesian ridge",
    "softmax-regression": "逻辑斯谛回归 多分类逻辑回归 multinomial logit 最大熵",
    "logistic-regression": "logit 逻辑斯谛回归 对数几率回归 二分类 罗吉斯回归 逻辑回归模型",
    "mlp": "MLP 多层感知器 全连接网络 feedforward deep neural network DNN BP神经网络",
    "mlp-regression": "MLP 多层感知器 全连接网络 feedforward deep neural network DNN BP神经网络",
    "code-generator": "supervised generator renderer up-convolution chairs 渲染 条件生成 上卷积 图像生成 反卷积",
    "metric-network": "siamese triplet 孪生网络 对比学习 度量学习",
    "box-detector": "anchor-free YOLO CenterNet SSD single shot 单阶段目标检测 无锚框",
    "fcn": "fully convolutional encoder decoder U-Net 全卷积网络 语义分割",
    "svm": "SVM SVC 支持向量 支持向量机分类器",
    "support-vector-regression": "SVR 支持向量",
    "decision-tree": "CART 分类树 决策树分类",
    "regression-tree": "CART 决策树",
    "bagging": "自助聚合 bootstrap aggregating 袋装法 装袋法",
    "bagging-regression": "自助聚合 bootstrap aggregating 袋装法 装袋法",
    "random-forest": "RF 随机决策森林",
    "random-forest-regression": "RF 随机决策森林",
    "extra-trees": "ExtraTrees 极度随机树",
    "extra-trees-regression": "ExtraTrees 极度随机树",
    "adaboost": "boosting 提升法 提升方法 自适应增强",
    "gradient-boosting": "GBDT GBM boosting 提升方法 梯度提升树 梯度提升决策树 提升树",
    "gradient-boosting-regression": "GBDT GBM boosting 提升方法 梯度提升树 梯度提升决策树 提升树",
    "histogram-boosting": "GBDT LightGBM XGBoost boosting 梯度提升树 梯度提升决策树 提升树",
    "histogram-boosting-regression": "GBDT LightGBM XGBoost boosting 梯度提升树 梯度提升决策树 提升树",
    "stacking": "stacked generalization 堆叠泛化",
    "stacking-regression": "stacked generalization 堆叠泛化",
    "ppca": "PCA 主成分 主成分分析 概率PCA principal components",
    "bernoulli-mixture": "LCA 潜类别分析 二值数据 混合伯努利模型 期望最大化",
    "gaussian-mixture": "GMM 混合高斯 高斯混合 EM算法 混合高斯模型 期望最大化",
    "bayesian-gaussian-mixture": "VBGMM DPGMM 变分贝叶斯 变分推断 狄利克雷过程 Dirichlet process mean field",
    "gaussian-classifier": "LDA QDA 线性判别分析 二次判别分析 高斯判别分析 高斯朴素贝叶斯 naive bayes 半监督学习",
    "kmeans": "K均值 K-均值 K平均 k-means kmeans++ K均值聚类 K均值聚类算法 K均值算法",
    "gated-rbm": "three-way RBM factored image transformations mapping units analogy 门控 三阶 图像变换 玻尔兹曼机",
    "higher-order-boltzmann-machine": "HOBM third-order interactions sigma-pi 高阶 相互作用 玻尔兹曼机 波尔兹曼机",
    "class-gated-rbm": "third-order RBM gated softmax three-way multiplicative 门控 三阶 分类 玻尔兹曼机",
    "pointwise-gated-rbm": "PGBM feature selection mask multiplicative gating 逐点门控 特征选择 掩码 玻尔兹曼机",
    "label-rbm": "classification RBM discriminative RBM ClassRBM 判别 分类 玻尔兹曼机 波尔兹曼机",
    "rbm": "RBM 玻尔兹曼机 波尔兹曼机 受限波尔兹曼机 限制玻尔兹曼机",
    "boltzmann-machine": "BM 波尔兹曼机 伊辛 ising markov random field 马尔可夫随机场 log-linear",
    "hidden-boltzmann-machine": "BM 波尔兹曼机 隐变量 latent variables",
    "semi-restricted-rbm": "SRBM 波尔兹曼机 半受限 lateral 横向连接",
    "gaussian-rbm": "GRBM GB-RBM Gaussian-Bernoulli 实值 连续 高斯 玻尔兹曼机 波尔兹曼机 受限波尔兹曼机",
    "conv-ssrbm": "ssRBM convolutional covariance textures 卷积 尖峰 平板 协方差 玻尔兹曼机 波尔兹曼机 受限波尔兹曼机",
    "spike-and-slab-rbm": "ssRBM mu-ssRBM covariance 尖峰 平板 协方差 玻尔兹曼机 波尔兹曼机 受限波尔兹曼机",
    "conditional-rbm": "CRBM structured output prediction multi-label 结构化输出 多标签 玻尔兹曼机 波尔兹曼机",
    "autoregressive-rbm": "CRBM conditional RBM time series sequence motion 时间序列 序列 波尔兹曼机",
    "rnn-rbm": "RNN-RBM sequence time series polyphonic music 时间序列 序列 循环神经网络 波尔兹曼机",
    "rtrbm": "RTRBM TRBM temporal RBM sequence time series video 时间序列 序列 时序 循环 波尔兹曼机",
    "factored-conditional-rbm": "FCRBM motion style gating three-way sequence 风格 运动 时间序列 门控 波尔兹曼机",
    "dbm": "DBM 深度玻尔兹曼机 深层 波尔兹曼机 pretraining 逐层预训练",
    "conv-rbm": "CRBM ConvRBM convolutional 概率最大池化 probabilistic max pooling 玻尔兹曼机 波尔兹曼机",
    "conv-dbm": "CDBN ConvDBN convolutional deep belief network 卷积深信网 概率最大池化 波尔兹曼机",
    "dbn": "DBN 深度信念网络 深层信念网 wake-sleep 醒睡 逐层预训练 玻尔兹曼机 波尔兹曼机",
    "mcrbm": "mcRBM cRBM covariance RBM 均值 协方差 玻尔兹曼机 波尔兹曼机 受限波尔兹曼机",
    "product-of-ppca": "PoPPCA PCA product of experts 专家乘积 主成分 协方差 minor components",
    "harmonium": "EFH exponential family Poisson RBM counts softmax 指数族 泊松 计数 玻尔兹曼机 波尔兹曼机",
    "dbn-classifier": "DBN pre-training pretrained fine-tuning DNN 深度信念网络 预训练 微调 分类",
    "dbm-classifier": "DBM pre-training mean field fine-tuning MLP 深层 波尔兹曼机 平均场 预训练 微调 分类",
    "deep-autoencoder": "AE stacked RBM pre-training dimension reduction bottleneck 自编码器 自动编码器 降维 预训练",
    "product-of-experts": "PoE energy-based model EBM unnormalized 专家乘积 能量模型 未归一化 玻尔兹曼分布",
    "spike-and-slab-sparse-coding": "S3C spike slab 尖峰 平板 稀疏编码 变分 EM",
    "generalized-factor-analysis": "logistic PCA Poisson PCA binary PCA count PCA item response IRT latent trait "
    "factor analysis GLM-PCA variational EM 因子分析 潜在特质 项目反应 二值 计数 主成分 变分",
    "mean-field-network": "unrolled binary sparse coding recurrent autoencoder LISTA 平均场 循环 展开 二值稀疏编码",
    "product-of-t": "PoT mPoT product of experts Student-t heavy-tailed ICA 专家乘积 学生t 重尾 玻尔兹曼机 波尔兹曼机",
    "nade": "NADE neural autoregressive distribution estimator 神经自回归分布估计 密度估计",
    "deep-nade": "DeepNADE EoNADE orderless order-agnostic ensemble 任意顺序 顺序无关 深度 自回归 集成",
    "nade-k": "NADE-k iterative NADE mean field 迭代 平均场 任意顺序 自回归",
    "fvbn": "FVBN autoregressive network logistic autoregressive 自回归网络 全可见信念网络 链式法则",
    "rnade": "RNADE real-valued NADE mixture density network MDN 实值 混合密度网络 神经自回归",
    "sbn": "SBN belief network logistic directed reweighted wake-sleep 信念网络 S型信念网 置信网络 有向 重加权醒睡",
    "darn": "DARN autoregressive description length 自回归 描述长度",
    "bidirectional-helmholtz-machine": "BiHM geometric mean 几何平均 双向 亥姆霍兹",
    "helmholtz-machine": "wake-sleep recognition network 醒睡 唤醒睡眠 识别网络 亥姆霍兹",
    "draw": "recurrent VAE canvas glimpse attention 循环变分 画布 注意力 逐步绘制",
    "vae": "VAE 变分自动编码器 自编码器 autoencoder",
    "vrnn": "VRNN variational RNN latent variable sequence time series 时间序列 序列 循环神经网络 变分",
    "gan": "GAN 生成式对抗网络 对抗生成网络",
    "conditional-gan": "CGAN 条件GAN 生成式对抗网络 对抗生成网络",
    "dcgan": "DCGAN 卷积神经网络 CNN 生成式对抗网络 对抗生成网络",
    "lenet": "CNN 卷积神经网络 卷积网络 convolutional neural network convnet 图像分类",
    "cnn": "CNN 卷积神经网络 卷积网络 convolutional neural network convnet 图像分类",
    "alexnet": "CNN 卷积神经网络 ImageNet 图像分类",
    "vgg": "CNN 卷积神经网络 VGG11 VGG16 VGG19 图像分类",
    "nin": "CNN 卷积神经网络 network in network 1x1 convolution 图像分类",
    "googlenet": "CNN Inception 卷积神经网络 含并行连结的网络 图像分类",
    "resnet": "CNN ResNet18 ResNet20 ResNet50 ResNeXt wide residual network 残差网络 卷积神经网络 图像分类",
    "densenet": "CNN DenseNet121 稠密连接网络 密集连接网络 卷积神经网络 图像分类",
    "shufflenet": "CNN ShuffleNet group convolution channel shuffle 卷积神经网络 分组卷积 通道混洗 图像分类",
    "ngram": "n元模型 N元文法 二元语法 三元语法 bigram trigram markov 马尔可夫 马尔科夫",
    "co-occurrence": "PMI PPMI SVD LSA count-based word embedding 共现矩阵 共现 点互信息 词嵌入",
    "neural-ngram": "NNLM neural probabilistic language model 神经网络语言模型 神经概率语言模型 词嵌入",
    "neural-joint-model": "NNJM phrase scoring MLP rescoring IBM model 1 alignment 短语打分 机器翻译 词对齐",
    "rnn-lm": "RNN 循环神经网络 递归神经网络",
    "gru-lm": "GRU RNN 循环神经网络 门控循环单元",
    "lstm-lm": "LSTM RNN 循环神经网络 长短期记忆网络 语言模型",
    "mrnn-lm": "MRNN multiplicative RNN character-level byte-level 字符级语言模型 字节级 乘法循环神经网络",
    "elmo": "contextual word embeddings bidirectional LSTM biLM 词向量 上下文词表示 双向语言模型",
    "sentence-vae": "VAE LSTM posterior collapse latent 变分自编码器 句子 文本生成 后验坍塌 隐变量语言模型",
    "nadaraya-watson": "kernel smoother local average attention pooling 核平滑 核回归 注意力汇聚 非参数回归",
    "transformer": "encoder decoder self-attention 编码器解码器 自注意力 机器翻译 变换器",
    "longformer": "long documents sliding window global attention 长文本分类 滑动窗口注意力 全局注意力",
    "longformer-lm": "sliding window dilated attention long documents 滑动窗口注意力 长文本 语言模型",
    "bert": "masked language model pretraining encoder cloze 掩码语言模型 预训练 完形填空 双向编码器",
    "electra": "replaced token detection pretraining generator discriminator 替换词检测 预训练 判别器",
    "transformer-tagger": "BERT fine-tuning token classification NER POS span 序列标注 命名实体识别 词性标注 微调",
    "transformer-classifier": "BERT fine-tuning sentence pair classification sentiment 文本分类 情感分析 句对分类 微调",
    "transformer-lm": "GPT decoder-only self-attention 自注意力 注意力机制 变换器 语言模型",
    "captioner": "show attend and tell encoder decoder attention 看图说话 图像字幕 编码器解码器 注意力机制",
    "seq2seq": "encoder decoder attention 编码器解码器 机器翻译 注意力机制",
    "matrix-factorization": "SVD ALS 协同过滤 矩阵分解 隐语义模型",
    "implicit-factorization": "ALS 隐式反馈 协同过滤",
    "pmf": "PMF 协同过滤",
    "rating-rbm": "RBM Netflix CF 协同过滤 受限玻尔兹曼机 受限波尔兹曼机 评分",
}
"""What single systems are called besides."""

GLOSSARY: Mapping[str, str] = {
    "激活函数": "activation", "损失函数": "loss", "损失": "loss", "卷积": "convolution", "注意力": "attention",
    "注意力机制": "attention", "归一化": "normaliz", "批归一化": "batch norm", "池化": "pool", "丢弃法": "dropout",
    "随机失活": "dropout", "嵌入": "embedding", "初始化": "initializer", "循环": "recurrent", "优化器": "optimizer",
    "学习率": "learning rate", "调度": "schedule", "早停": "early stop", "采样": "sampl", "抽样": "sampl",
    "吉布斯采样": "gibbs", "吉布斯": "gibbs", "蒙特卡罗": "monte carlo", "蒙特卡洛": "monte carlo",
    "马尔可夫链": "markov chain", "重要性采样": "importance sampl", "变分": "variational", "变分推断": "variational",
    "后验": "posterior", "先验": "prior", "似然": "likelihood", "对数似然": "log likelihood",
    "期望最大化": "expectation maximization", "指标": "metric", "准确率": "accuracy", "召回率": "recall",
    "精确率": "precision", "混淆矩阵": "confusion", "校准": "calibration", "困惑度": "perplexity",
    "互信息": "mutual information", "熵": "entropy", "交叉熵": "cross-entropy", "散度": "divergence",
    "距离": "distance", "相似度": "similarity", "数据集": "data set", "预处理": "preprocess", "标准化": "standardi",
    "分词": "token", "词表": "vocabulary", "词汇表": "vocabulary", "编码": "encod", "独热编码": "one-hot",
    "独热": "one-hot", "评分": "rating", "三元组": "triple", "知识图谱": "knowledge graph", "负采样": "negative",
    "梯度": "gradient", "束搜索": "beam", "集束搜索": "beam", "贪心": "greedy", "解码": "decod", "图": "graph",
    "因子图": "factor graph", "贝叶斯网络": "directed", "高斯分布": "gaussian", "正态分布": "normal",
    "伯努利分布": "bernoulli", "泊松分布": "poisson", "狄利克雷": "dirichlet", "分布": "distribution", "核": "kernel",
    "线性算子": "operator", "噪声": "noise", "玻尔兹曼机": "boltzmann", "对比散度": "contrastive divergence",
    "任务": "task", "分类": "classif", "聚类": "cluster", "回归": "regress", "排序": "rank", "推荐": "recommend",
    "翻译": "translat", "异常检测": "anomaly", "过拟合": "overfit", "偏差方差": "bias variance", "量化": "quanti",
    "em算法": "expectation maximization", "随机梯度下降": "sgd", "梯度下降": "gradient descent",
    "反向传播": "backward", "学习率衰减": "learning rate", "批量归一化": "batch norm", "权重衰减": "weight decay",
    "早停法": "early stop", "最大池化": "max pool", "卷积层": "convolution", "全连接层": "affine",
    "词嵌入": "embedding", "词向量": "embedding", "交叉验证": "fold", "f1": "f_score", "f值": "f_score",
    "f1值": "f_score", "roc曲线": "roc_auc", "auc": "roc_auc", "曲线下面积": "roc_auc", "均方误差": "squared error",
    "均方根误差": "rmse", "轮廓系数": "silhouette", "兰德指数": "rand index", "调整兰德指数": "rand index",
    "信息熵": "entropy", "kl散度": "kl", "相对熵": "kl", "最大似然": "maximum likelihood",
    "极大似然": "maximum likelihood", "极大似然估计": "maximum likelihood", "最大似然估计": "maximum likelihood",
    "马尔可夫链蒙特卡洛": "mcmc", "马尔可夫链蒙特卡罗": "mcmc", "马尔科夫链": "markov chain", "马尔可夫": "markov",
    "马尔科夫": "markov", "退火重要性采样": "annealed", "哈密顿蒙特卡洛": "hamiltonian",
    "哈密顿蒙特卡罗": "hamiltonian", "拒绝采样": "rejection", "贝叶斯推断": "posterior", "共轭先验": "conjugate",
    "共轭": "conjugate", "配分函数": "log_partition", "归一化常数": "log_partition", "缺失值": "missing",
    "特征重要性": "permutation", "置换重要性": "permutation", "模型评估": "scores", "基线": "baseline",
    "傅里叶变换": "fourier", "傅里叶": "fourier", "收敛诊断": "r_hat", "诊断": "diagnos", "有效样本量": "effective",
    "二项分布": "binomial", "指数分布": "exponential", "贝塔分布": "beta", "狄利克雷分布": "dirichlet",
    "伽马分布": "gamma", "学生t分布": "student", "均匀分布": "uniform", "图模型": "graph", "概率图模型": "graph",
    "变量消去": "elimination", "变量消除": "elimination", "置信区间": "interval", "权重初始化": "initial",
    "梯度裁剪": "clip", "残差": "residual", "最近邻": "nearest", "协方差": "covariance", "协方差矩阵": "covariance",
    "特征值": "eigen", "似然函数": "likelihood", "后验分布": "posterior", "先验分布": "prior", "积分": "integral",
    "数值积分": "integral", "随机数": "noise", "平行回火": "tempering", "并行回火": "tempering", "退火": "anneal",
    "均值场": "mean field", "平均场": "mean field", "降采样": "pool", "划分数据": "split",
    "数据划分": "split", "训练集": "split", "拆分": "split", "正则化": "weight decay",
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
