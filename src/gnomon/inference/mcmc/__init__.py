"""Markov chains: block Gibbs sampling, mean field, kernels as matrices, chains on finite state spaces."""
