"""A rule of credit that pays for how much joint actions depend on what came before them.

`reading` embeds them, `memory` keeps the best and the worst, `bounds` are the networks that bound
mutual information, `pmic` is the rule.
"""
