"""Reads."""

from triton_models.spec import ModelDefinition, PythonModel, Tensor

BUILD = ModelDefinition(
    name="reader",
    description="made up",
    models=[
        PythonModel(
            name="reader",
            code="code.py",
            inputs=[Tensor("X", "FP32", [1])],
            outputs=[Tensor("Y", "FP32", [1])],
            max_batch_size=0,
        )
    ],
    examples=list,
    reference=dict,
    output="Y",
    tolerance=0.0,
)
