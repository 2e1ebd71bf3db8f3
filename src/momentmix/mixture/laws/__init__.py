"""Laws of features that are not Gaussian: yes/no answers, categories, counts, missing cells."""
