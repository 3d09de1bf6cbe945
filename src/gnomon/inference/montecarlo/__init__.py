"""Monte Carlo estimates: expectations, integrals, and draws that are exact or fail."""
