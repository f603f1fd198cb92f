"""Token ids of a sentence to token ids of its translation. Runs in Triton's Python backend, on CPU or GPU.

ONNX Runtime runs the networks, without PyTorch. The decoder's keys and values stay on the device; only the
chosen tokens are copied to the host after each step.
"""

import json
from pathlib import Path

import numpy as np
import onnxruntime as ort
import triton_python_backend_utils as pb_utils

PAD, END = 0, 1  # T5's <pad>, which also starts every translation, and its </s>
IDS, MASK, OUTPUT = "input_ids", "attention_mask", "output"


class TritonPythonModel:
    """Decodes requests that arrive together as one batch, with the same answers as for each request alone."""

    def initialize(self, args):
        """Load both networks on the device that the server assigned to this instance."""
        parameters = json.loads(args["model_config"])["parameters"]
        self.max_tokens, self.max_new_tokens, self.vocabulary, threads = (
            int(parameters[name]["string_value"])
            for name in ("max_tokens", "max_new_tokens", "vocabulary", "threads")
        )
        gpu = args["model_instance_kind"] == "GPU"
        self.device = ("cuda" if gpu else "cpu", int(args["model_instance_device_id"]) if gpu else 0)
        self.encoder = self._load("encoder.onnx", threads)
        self.decoder = self._load("decoder.onnx", threads)
        # [batch, heads, tokens, head size], for each layer
        past = [each for each in self.decoder.get_inputs() if each.name.startswith("past_keys_")]
        self.layers, (_, self.heads, _, self.head_size) = len(past), past[0].shape

    def execute(self, requests):
        """Return one response per request, in order."""
        responses = [None] * len(requests)
        sound = []
        for number, request in enumerate(requests):
            ids, mask = (pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in (IDS, MASK))
            if mistake := self._mistake(ids, mask):
                responses[number] = pb_utils.InferenceResponse(error=pb_utils.TritonError(mistake))
            else:
                sound.append((number, ids, mask))
        if sound:
            rows = self._translate(_padded([each[1] for each in sound]), _padded([each[2] for each in sound]))
            for number, ids, _ in sound:
                mine, rows = rows[: len(ids)], rows[len(ids) :]
                tensor = pb_utils.Tensor(OUTPUT, _trimmed(mine))
                responses[number] = pb_utils.InferenceResponse(output_tensors=[tensor])
        return responses

    def finalize(self):
        """Free the networks' memory, also on the GPU."""
        self.encoder = self.decoder = None

    def _load(self, name, threads):
        options = ort.SessionOptions()
        # Each instance is a separate process, so more threads would compete with those of other instances.
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        wanted = "CPUExecutionProvider"
        providers = [wanted]
        if self.device[0] == "cuda":
            wanted = "CUDAExecutionProvider"
            settings = {
                "device_id": self.device[1],
                # The arena keeps its default strategy. With kSameAsRequested it takes memory for each step,
                # because the keys and values of a step fit into no block that earlier ones left: t5-small
                # took 1598 MiB instead of 112 for 128 tokens in 8 rows.
                # TF32 is on by default, but rounded scores sometimes choose another token than generate().
                "use_tf32": "0",
            }
            providers = [(wanted, settings), *providers]
        session = ort.InferenceSession(str(Path(__file__).with_name(name)), options, providers=providers)
        if session.get_providers()[0] != wanted:  # it silently falls back to the CPU
            raise pb_utils.TritonModelException(
                f"{name}: ONNX Runtime {ort.__version__} has no {wanted} here, only {session.get_providers()}"
            )
        return session

    def _mistake(self, ids, mask):
        if ids.shape != mask.shape:
            return f"{IDS} is {list(ids.shape)} and {MASK} {list(mask.shape)}: they must be equal"
        if not 1 <= ids.shape[1] <= self.max_tokens:
            return f"{IDS} has {ids.shape[1]} tokens: it can have 1 to {self.max_tokens}"
        if ids.min() < 0 or ids.max() >= self.vocabulary:
            return f"{IDS} goes from {ids.min()} to {ids.max()}: tokens are 0 to {self.vocabulary - 1}"
        return None

    def _translate(self, ids, mask):
        """Decode all rows at once, greedily: [rows, 1 + new tokens], padded after the end of each row."""
        rows = len(ids)
        binding = self.encoder.io_binding()
        binding.bind_cpu_input(IDS, ids)
        binding.bind_cpu_input(MASK, mask)
        read = self._by_layer("keys", "values")
        caches = dict(zip(read, self._run(self.encoder, binding, read), strict=True))
        mask_there = self._there(mask)
        nothing = self._there(np.zeros((rows, self.heads, 0, self.head_size), dtype=np.float32))
        before = self._by_layer("past_keys", "past_values")
        caches |= dict.fromkeys(before, nothing)
        written = [np.full((rows, 1), PAD, dtype=np.int32)]
        finished = np.zeros((rows, 1), dtype=bool)
        while len(written) <= self.max_new_tokens and not finished.all():
            binding = self.decoder.io_binding()
            binding.bind_cpu_input("token", written[-1])
            for name, value in {MASK: mask_there, **caches}.items():
                binding.bind_ortvalue_input(name, value)
            outputs = ["next_token", *self._by_layer("all_keys", "all_values")]
            token, *past = self._run(self.decoder, binding, outputs)
            caches |= dict(zip(before, past, strict=True))
            written.append(np.where(finished, PAD, token.numpy()).astype(np.int32))
            finished |= written[-1] == END
        return np.concatenate(written, axis=1)

    def _by_layer(self, *kinds):
        return [f"{kind}_{layer}" for kind in kinds for layer in range(self.layers)]

    def _run(self, session, binding, outputs):
        for name in outputs:
            binding.bind_output(name, *self.device)
        session.run_with_iobinding(binding)
        return binding.get_outputs()

    def _there(self, array):
        return ort.OrtValue.ortvalue_from_numpy(array, *self.device)


def _padded(arrays):
    """Join the rows of several requests in one array, padded with 0, which the mask hides."""
    width = max(array.shape[1] for array in arrays)
    return np.concatenate([np.pad(array, ((0, 0), (0, width - array.shape[1]))) for array in arrays])


def _trimmed(rows):
    """Cut a request's rows after the longest one, as generate() returns them for this request alone."""
    ended = rows == END
    lengths = np.where(ended.any(axis=1), ended.argmax(axis=1) + 1, rows.shape[1])
    return np.ascontiguousarray(rows[:, : lengths.max()])
