"""Recurrent models of sequences: language models, sequence to sequence."""
