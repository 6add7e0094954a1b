"""The kinds of NumPy arrays that tables and scans are calculated with."""

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
