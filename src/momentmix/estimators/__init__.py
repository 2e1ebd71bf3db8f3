"""The fits behind the interface of scikit-learn; no mathematics."""
