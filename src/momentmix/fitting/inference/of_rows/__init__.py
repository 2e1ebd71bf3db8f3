"""What the rows themselves show, beside their moments."""
