"""What is wrong with a result, and what to do: small checks, each of which claims only what it has computed.

Every module has a table ``CHECKS`` of functions that take one kind of subject (draws of chains, the history of a fit,
answers to held-out rows, a model with blocks) and give findings, or say in words why they do not apply.
"""

from gnomon.evaluation.diagnosis.records import Diagnosis, Finding, examine

__all__ = ["Diagnosis", "Finding", "examine"]
