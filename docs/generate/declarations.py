"""docs/declarations.md: every class that a model's build.py uses, from its docstring."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import griffe

from docs.generate.docstrings import described, fields, load, prose, public_names, target

PAGE = Path(__file__).resolve().parents[1] / "declarations.md"

# The modules of the names in triton_models.spec, in the order of the page.
_SECTIONS = {
    "declare.declaration": "The declaration",
    "declare.models": "Models",
    "declare.tensors": "Tensors",
    "declare.backends": "Backends",
    "declare.serving": "Serving",
    "declare.weights": "Weights",
    "declare.environments": "Environments of Python models",
    "builds.job": "Models that no class can declare",
}
_HEAD = """\
# Declare a model

A model build is a folder in `model_builds/models/` with a `build.py`, which assigns `BUILD`. A complete one:

```python
from triton_models.spec import Example, ModelDefinition, PyTorchNetwork, RandomWeights, Tensor

def network():
    import torch
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

def examples():
    import numpy as np
    return [Example(name="two rows", inputs={"FEATURES": np.ones((2, 4), np.float32)})]

def reference(inputs):
    import torch
    with torch.inference_mode():
        return {"SCORES": network()(torch.from_numpy(inputs["FEATURES"])).numpy()}

BUILD = ModelDefinition(
    name="tiny", description="4 numbers to 2 scores", weights=RandomWeights(seed=7),
    models=[PyTorchNetwork(
        name="tiny", network=network, inputs=[Tensor("FEATURES", "FP32", [4])], outputs=["SCORES"],
        max_batch_size=32,
    )],
    examples=examples, reference=reference, output="SCORES", tolerance=1e-4,
)
```

Save it as `model_builds/models/tiny/build.py`, then:

```console
$ fleet build tiny && fleet check build/tiny    # export the network, and check what Triton would load
$ fleet rehearse tiny                           # deploy, publish, serve, and compare with the reference
```

- **Import frameworks in functions**, never at the top: `cdk synth` reads every declaration, and must not wait
  for PyTorch.
- **Shapes leave out the batch dimension.** `max_batch_size` adds it; 0 says that the tensors have none.
- **config.pbtxt is derived**, and so are an ensemble's tensors, the TensorRT profiles and the environments.
- **`FORMS`** next to `BUILD` may hold other forms of the model by name, such as one for each backend or
  tenant: `fleet build resnet50:tensorrt` builds one, and `fleet compare resnet50` measures all of them.
- **Mistakes are reported together**, at synthesis: see [the errors](errors.md).

Import every name below from `triton_models.spec`.
"""


def page() -> str:
    """Return the page."""
    package = load("triton_models")
    spec = package["spec"]
    public = {name: target(spec[name]) for name in public_names(spec)}
    parts = [_HEAD]
    for module, title in _SECTIONS.items():
        path = f"triton_models.{module}"
        names = [name for name, each in public.items() if _is_documented(each, module=path)]
        parts.append(f"## {title}\n")
        parts += [
            "\n\n".join(_section(name, public[name])) + "\n"
            for name in sorted(names, key=lambda name: public[name].lineno or 0)
        ]
    return "\n".join(parts)


def _is_documented(each: griffe.Object, *, module: str) -> bool:
    """Return True for the classes and functions of a module: type aliases need no section."""
    return isinstance(each, griffe.Class | griffe.Function) and each.module.path == module


def _section(name: str, documented: griffe.Object) -> Iterator[str]:
    yield f"### {name}"
    yield prose(documented)
    if isinstance(documented, griffe.Function):
        yield "\n".join(f"- `{each}`: {text}" for each, text in described(documented, "parameters").items())
    elif described(documented, "attributes"):
        yield "\n".join(fields(documented))
    if name == "BuildJob":
        yield from _methods(documented)


def _methods(documented: griffe.Object) -> Iterator[str]:
    """The methods that `ModelDefinition.write` calls."""
    for member in documented.members.values():
        if isinstance(member, griffe.Function) and not (
            member.name.startswith("_") or "property" in member.labels
        ):
            taken = ", ".join(each.name for each in member.parameters if each.name != "self")
            yield f"**`{member.name}({taken})`** {prose(member)}"
