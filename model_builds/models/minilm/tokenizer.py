"""Text to token ids and attention mask, with the model's own tokenizer. Runs in Triton's Python backend."""

import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer


class TritonPythonModel:
    """Tokenizes each request separately, padded to its longest text."""

    def initialize(self, args):
        """Load tokenizer.json, and set the limits from the configuration."""
        parameters = json.loads(args["model_config"])["parameters"]
        # The limits in the file (128, always padded) are not those of the model.
        self.tokenizer = Tokenizer.from_file(str(Path(__file__).with_name("tokenizer.json")))
        self.tokenizer.enable_truncation(max_length=int(parameters["max_tokens"]["string_value"]))
        self.tokenizer.enable_padding(pad_to_multiple_of=int(parameters["padding"]["string_value"]))

    def execute(self, requests):
        """Return one response per request."""
        return [self._tokenize(request) for request in requests]

    def _tokenize(self, request):
        texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().ravel()
        try:
            tokens = self.tokenizer.encode_batch([text.decode() for text in texts])
        except UnicodeDecodeError as error:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"TEXT is not UTF-8: {error}"))
        ids = np.array([each.ids for each in tokens], dtype=np.int32)
        mask = np.array([each.attention_mask for each in tokens], dtype=np.int32)
        return pb_utils.InferenceResponse(
            output_tensors=[pb_utils.Tensor("input_ids", ids), pb_utils.Tensor("attention_mask", mask)]
        )
