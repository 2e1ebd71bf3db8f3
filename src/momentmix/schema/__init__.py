"""How the columns of a table become numeric features: families, levels, missing cells."""
