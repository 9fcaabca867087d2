"""The evidence loop (S5): a worker gathers evidence by commands and questions, main decides when it is enough."""
