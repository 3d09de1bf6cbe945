"""Written by tools/write_stub.py."""

from gnomon import data as data
from gnomon import errors as errors
from gnomon import testing as testing
from gnomon._version import __version__ as __version__
from gnomon.catalog import Entry
from gnomon.catalog import make as make
from gnomon.evaluation.score import Score as Score
from gnomon.fitting import resume as resume
from gnomon.saving import load as load
from gnomon.systems.energy.rbm import RBM as RBM
from gnomon.systems.factors.ppca import PPCA as PPCA
from gnomon.systems.linear.softmax_regression import SoftmaxRegression as SoftmaxRegression
from gnomon.systems.mixtures.bernoulli_mixture import BernoulliMixture as BernoulliMixture
from gnomon.systems.mixtures.gaussian_mixture import GaussianMixture as GaussianMixture
from gnomon.systems.mixtures.kmeans import KMeans as KMeans
from gnomon.systems.text.ngram import NGram as NGram
from gnomon.systems.vision.lenet import LeNet as LeNet
from gnomon.tasks.compare import compare as compare
from gnomon.training.context import context as context
from gnomon.training.launch import launch as launch

def catalog() -> tuple[Entry, ...]:
    """Every system, gnomon's own first, then those of plug-ins."""
