"""LoTES: from job classes and machine configurations to a dispatch table.

Job classes -> allocation LP -> bins -> machine-assignment LP -> dispatch table, over plain arrays
and names. The paper is Long Term Evaluation Scheduling (LoTES), sections 4.1 to 4.3.
"""
