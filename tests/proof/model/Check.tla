---- MODULE Check ----
EXTENDS Registrar, TLC
Symmetric == Permutations(Nodes)
====
