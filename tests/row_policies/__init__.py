"""Row policies on stores of their own, on both databases."""
