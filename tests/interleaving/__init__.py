"""Every order of every atomic step: the search that the rules of the library are settled by."""
