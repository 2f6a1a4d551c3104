"""Private models of clusterings."""
