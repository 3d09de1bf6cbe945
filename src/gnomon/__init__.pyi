"""Written by tools/write_stub.py."""

from gnomon import data as data
from gnomon import errors as errors
from gnomon import evaluation as evaluation
from gnomon import testing as testing
from gnomon._version import __version__ as __version__
from gnomon.catalog import Entry
from gnomon.catalog import make as make
from gnomon.distributions import conjugate as conjugate
from gnomon.evaluation.partition import log_partition as log_partition
from gnomon.evaluation.score import Score as Score
from gnomon.search.verb import search as search
from gnomon.system.saving import load as load
from gnomon.systems.adversarial.conditional_gan import ConditionalGAN as ConditionalGAN
from gnomon.systems.adversarial.gan import DCGAN as DCGAN
from gnomon.systems.adversarial.gan import GAN as GAN
from gnomon.systems.energy.layered import LayeredMachine as LayeredMachine
from gnomon.systems.energy.rbm import RBM as RBM
from gnomon.systems.ensemble.adaboost import AdaBoost as AdaBoost
from gnomon.systems.ensemble.bagging import Bagging as Bagging
from gnomon.systems.ensemble.bagging import BaggingRegression as BaggingRegression
from gnomon.systems.ensemble.extra_trees import ExtraTrees as ExtraTrees
from gnomon.systems.ensemble.extra_trees import ExtraTreesRegression as ExtraTreesRegression
from gnomon.systems.ensemble.gradient_boosting import GradientBoosting as GradientBoosting
from gnomon.systems.ensemble.gradient_boosting import GradientBoostingRegression as GradientBoostingRegression
from gnomon.systems.ensemble.histogram_boosting import HistogramBoosting as HistogramBoosting
from gnomon.systems.ensemble.histogram_boosting import HistogramBoostingRegression as HistogramBoostingRegression
from gnomon.systems.ensemble.random_forest import RandomForest as RandomForest
from gnomon.systems.ensemble.random_forest import RandomForestRegression as RandomForestRegression
from gnomon.systems.ensemble.stacking import Stacking as Stacking
from gnomon.systems.ensemble.stacking import StackingRegression as StackingRegression
from gnomon.systems.factors.ppca import PPCA as PPCA
from gnomon.systems.kernel.svm import SVM as SVM
from gnomon.systems.kernel.svm import SupportVectorRegression as SupportVectorRegression
from gnomon.systems.linear.bayesian_regression import BayesianRegression as BayesianRegression
from gnomon.systems.linear.linear_regression import LinearRegression as LinearRegression
from gnomon.systems.linear.logistic_regression import LogisticRegression as LogisticRegression
from gnomon.systems.linear.softmax_regression import SoftmaxRegression as SoftmaxRegression
from gnomon.systems.mixtures.bernoulli_mixture import BernoulliMixture as BernoulliMixture
from gnomon.systems.mixtures.gaussian_classifier import GaussianClassifier as GaussianClassifier
from gnomon.systems.mixtures.gaussian_mixture import GaussianMixture as GaussianMixture
from gnomon.systems.mixtures.kmeans import KMeans as KMeans
from gnomon.systems.neural.metric_network import MetricNetwork as MetricNetwork
from gnomon.systems.neural.mlp import MLP as MLP
from gnomon.systems.neural.mlp_regression import MLPRegression as MLPRegression
from gnomon.systems.recommend.implicit_factorization import ImplicitFactorization as ImplicitFactorization
from gnomon.systems.recommend.matrix_factorization import MatrixFactorization as MatrixFactorization
from gnomon.systems.recommend.pmf import PMF as PMF
from gnomon.systems.sequence.gru_lm import GRULM as GRULM
from gnomon.systems.sequence.rnn_lm import RNNLM as RNNLM
from gnomon.systems.sequence.seq2seq import Seq2Seq as Seq2Seq
from gnomon.systems.text.ngram import NGram as NGram
from gnomon.systems.trees.decision_tree import DecisionTree as DecisionTree
from gnomon.systems.trees.decision_tree import RegressionTree as RegressionTree
from gnomon.systems.variational.vae import VAE as VAE
from gnomon.systems.vision.lenet import LeNet as LeNet
from gnomon.tasks.chains import load_draws as load_draws
from gnomon.tasks.chains import sample_chain as sample_chain
from gnomon.tasks.compare import compare as compare
from gnomon.tasks.diagnose import diagnose as diagnose
from gnomon.tasks.fitting import fit as fit
from gnomon.tasks.fitting import resume as resume
from gnomon.training.context import context as context
from gnomon.training.launch import launch as launch

def catalog() -> tuple[Entry, ...]:
    """Every system, gnomon's own first, then those of plug-ins."""
