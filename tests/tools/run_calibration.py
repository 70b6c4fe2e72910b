"""Calibrates a checkpoint and saves what was seen; the tests start it as a process of its own.

Arguments: the checkpoint, the text, the file to write: `NAME.mean_square` and its like.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

from safetensors.torch import save_file

from ouzel.quantization.activations import Activations
from ouzel.tools.calibration import calibrate

if __name__ == "__main__":
    seen = calibrate(Path(sys.argv[1]), Path(sys.argv[2]).read_text(), second_moment=True)
    parts = [field.name for field in fields(Activations)]
    save_file(
        {f"{name}.{part}": getattr(one, part).clone() for name, one in seen.items() for part in parts}, sys.argv[3]
    )
