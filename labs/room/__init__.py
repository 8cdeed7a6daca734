"""The room buys: the phones of the audience are the crowd, over this computer's network address."""
