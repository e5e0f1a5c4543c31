"""The S-measure as a regularizer: its programs, solved exactly for given scores."""
