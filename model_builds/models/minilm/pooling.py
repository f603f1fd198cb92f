"""Token embeddings to one embedding per text: the mean over the real tokens, scaled to length 1."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Mean pooling, then normalization, as in the model's modules.json."""

    def execute(self, requests):
        """Return one response per request."""
        return [self._pool(request) for request in requests]

    def _pool(self, request):
        # A GPU encoder's output arrives here in host memory: the backend copies it by default.
        vectors = pb_utils.get_input_tensor_by_name(request, "token_embeddings").as_numpy()
        mask = pb_utils.get_input_tensor_by_name(request, "attention_mask").as_numpy()
        weights = mask[..., None].astype(np.float32)
        mean = (vectors * weights).sum(axis=1) / weights.sum(
            axis=1
        )  # [CLS] and [SEP] make the sum at least 2
        embedding = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("EMBEDDING", embedding)])
