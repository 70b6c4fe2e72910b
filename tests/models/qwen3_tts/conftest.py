from __future__ import annotations

import torch

# The tiny geometries gain nothing from a second thread, and on a busy machine its barriers cost minutes.
torch.set_num_threads(1)
