"""Rules of credit with a critic: a head on hidden states of a frozen model.

Each rule is a file here; `head` is the network, `history` what it reads, `values` how its
predictions become advantages over turns.
"""
