"""`agenda simulate`: the experiments of the papers, run, printed and drawn."""
