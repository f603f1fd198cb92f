"""The code of the model, as Triton's Python backend runs it."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Returns its input."""

    def execute(self, requests):
        """Answer each request."""
        inputs = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", each)]) for each in inputs]
