"""The paper's tables, its figures beside ours."""
