"""Models with latent variables that an encoder infers."""
