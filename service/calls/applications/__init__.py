"""Applications, the quotas they meet, and the executors that run them."""
