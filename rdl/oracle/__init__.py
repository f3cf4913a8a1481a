"""The oracle: does an allocation satisfy an expression? It shares no code with the compiler."""
