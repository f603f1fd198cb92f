"""A model for the tests of the templates: it returns what it gets."""

from triton_models.spec import Example, ModelDefinition, PythonModel, Tensor


def examples() -> list[Example]:
    """Two numbers."""
    import numpy as np

    return [Example(name="two", inputs={"X": np.array([1.0, 2.0], dtype=np.float32)})]


BUILD = ModelDefinition(
    name="echo",
    description="returns its input",
    models=[
        PythonModel(
            name="echo",
            code="model.py",
            inputs=[Tensor("X", "FP32", [2])],
            outputs=[Tensor("Y", "FP32", [2])],
            max_batch_size=0,
        )
    ],
    examples=examples,
    reference=lambda inputs: {"Y": inputs["X"]},
    output="Y",
    tolerance=0.0,
)
