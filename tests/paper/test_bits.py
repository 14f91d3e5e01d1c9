"""Every column still draws and steps as it did when the runs of the store were made.

If a test fails here, the bits of training changed. Raise the edition of the column in `columns.py`:
runs of the old and the new code must not meet in one table. The store was made with AVX-512, whose
draws are not those of the other builds; the numbers hold to the last digit on Intel and on AMD.
"""

import json

import pytest
import torch

from pacbayes.engine.library import available
from pacbayes.paper.columns import COLUMNS, chosen
from pacbayes.paper.execution import run
from pacbayes.paper.store import Store

pytestmark = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX512" or not available(),
    reason="the store was made by the engine for AVX-512",
)

AS_MADE: dict[str, tuple[float, float | None]] = {  # training loss and KL after one epoch
    "mlp": (0.48749076, None),
    "pbg": (0.49187500, 2.80962801),
    "reinforce-sign": (0.49953695, 1117.90351),
    "reinforce-relu": (0.49707244, 1116.70523),
    "fix-lambda-sign": (0.50040784, 5.89653999),
    "fix-lambda-sigmoid": (0.49748177, 27.6784082),
    "fix-lambda-relu": (0.49688072, 28.4811916),
    "optim-lambda-sign": (0.50146990, 4.32606924),
    "optim-lambda-sigmoid": (0.50041987, 22.6544097),
    "optim-lambda-relu": (0.49983913, 21.4885677),
    "pbg-full": (0.49178040, 2.68674862),
    "fast-sign": (0.50013417, 88.4220183),
    "fast-sigmoid": (0.49794999, 6.37547566),
    "fast-relu": (0.49671151, 7.88850671),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_one_epoch_ends_where_it_ended_when_the_store_was_made(column, tmp_path):
    assert run(chosen(column, "digits", 1), Store(tmp_path)) == "done"
    (path,) = tmp_path.glob("runs/*/summary.json")
    found = json.loads(path.read_text())
    loss, kl = AS_MADE[column]
    assert found["train_linear"] == pytest.approx(loss, rel=1e-5)
    assert found["kl"] == (kl if kl is None else pytest.approx(kl, rel=1e-5))
