"""A small board: posts, likes, comments, and a group of few seats. Its models, and what both applications share."""
