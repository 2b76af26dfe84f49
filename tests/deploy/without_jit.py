"""Run a command that never executes memory that it wrote, as MemoryDenyWriteExecute=yes has it."""

import ctypes
import os
import sys

SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
"""prctl's PR_SET_MDWE, from Linux 6.3 on; older kernels do not know it, and the command runs without it."""

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0)
    os.execvp(sys.argv[1], sys.argv[1:])
