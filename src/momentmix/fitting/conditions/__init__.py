"""Which moments are matched, their model side, derivative and covariance."""
