"""onnxruntime: sessions that share a machine's cores with other stages.

Source: onnxruntime's session options; a spinning pool burns a core between calls, so spinning is off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from duplex.engines import EngineError, mapped

_QUIET = 3  # onnxruntime: errors only

Tensor = NDArray[Any]


class OnnxModel:
    """One loaded graph on the CPU.

    Args:
        graph: the .onnx file, or its bytes.
        threads: intra-op threads, ≥ 1.
    Raises:
        EngineError: the graph cannot be loaded.
    """

    def __init__(self, graph: Path | bytes, *, threads: int) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.log_severity_level = _QUIET
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        name, source = (graph.name, str(graph)) if isinstance(graph, Path) else ("a graph", graph)
        try:
            self._session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # noqa: BLE001  onnxruntime's own classes share no base
            raise EngineError(f"{name} cannot be loaded: {error}") from error
        self.inputs: tuple[str, ...] = tuple(i.name for i in self._session.get_inputs())
        """Names of the graph's inputs, in order."""
        self.outputs: tuple[str, ...] = tuple(o.name for o in self._session.get_outputs())
        """Names of the graph's outputs, in order."""

    def run(self, feeds: Mapping[str, Tensor], outputs: Sequence[str] | None = None) -> list[Tensor]:
        """Run the graph once.

        Args:
            feeds: one array for each input, of the graph's own shapes and types.
            outputs: names of the wanted outputs; None gives all, in order.
        Raises:
            EngineError: onnxruntime refused the input or failed. MemoryError: it got no memory.
        """
        try:
            results = self._session.run(outputs, dict(feeds))
        except Exception as error:  # noqa: BLE001  as above
            raise mapped(error) from error
        return [np.asarray(result) for result in results]
