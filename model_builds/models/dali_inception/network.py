"""The Inception v3 network, with the parameter names of torchvision and timm, for 1001 classes.

Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2015, as trained by TensorFlow's
slim (inception_v3_2016_08_28): class 0 is the background, and class n + 1 is ImageNet's class n. As in
TensorFlow, averages leave out the padding. There is no auxiliary head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

CLASSES = 1001

# For the untrained network.
GAIN = 1.15
SPREAD = 45.0


class Conv(NamedTuple):
    """A convolution with batch normalization and ReLU. With stride 1, it keeps the size of the image."""

    name: str
    width: int
    kernel: int | tuple[int, int]
    stride: int = 1


AVERAGE, MAXIMUM = "average", "maximum"
Layer: TypeAlias = Conv | str | tuple[Conv, ...]
"""The convolutions of a tuple have the same input, and their outputs are concatenated."""


def block_a(pool: int) -> Sequence[Sequence[Layer]]:
    """Return a block for 35 x 35."""
    return (
        [Conv("branch1x1", 64, 1)],
        [Conv("branch5x5_1", 48, 1), Conv("branch5x5_2", 64, 5)],
        [Conv("branch3x3dbl_1", 64, 1), Conv("branch3x3dbl_2", 96, 3), Conv("branch3x3dbl_3", 96, 3)],
        [AVERAGE, Conv("branch_pool", pool, 1)],
    )


def block_b() -> Sequence[Sequence[Layer]]:
    """Return a block from 35 x 35 to 17 x 17."""
    return (
        [Conv("branch3x3", 384, 3, 2)],
        [Conv("branch3x3dbl_1", 64, 1), Conv("branch3x3dbl_2", 96, 3), Conv("branch3x3dbl_3", 96, 3, 2)],
        [MAXIMUM],
    )


def block_c(width: int) -> Sequence[Sequence[Layer]]:
    """Return a block for 17 x 17, with 7 x 7 convolutions as 1 x 7 and 7 x 1."""
    return (
        [Conv("branch1x1", 192, 1)],
        [Conv("branch7x7_1", width, 1), Conv("branch7x7_2", width, (1, 7)), Conv("branch7x7_3", 192, (7, 1))],
        [
            Conv("branch7x7dbl_1", width, 1),
            Conv("branch7x7dbl_2", width, (7, 1)),
            Conv("branch7x7dbl_3", width, (1, 7)),
            Conv("branch7x7dbl_4", width, (7, 1)),
            Conv("branch7x7dbl_5", 192, (1, 7)),
        ],
        [AVERAGE, Conv("branch_pool", 192, 1)],
    )


def block_d() -> Sequence[Sequence[Layer]]:
    """Return a block from 17 x 17 to 8 x 8."""
    return (
        [Conv("branch3x3_1", 192, 1), Conv("branch3x3_2", 320, 3, 2)],
        [
            Conv("branch7x7x3_1", 192, 1),
            Conv("branch7x7x3_2", 192, (1, 7)),
            Conv("branch7x7x3_3", 192, (7, 1)),
            Conv("branch7x7x3_4", 192, 3, 2),
        ],
        [MAXIMUM],
    )


def block_e() -> Sequence[Sequence[Layer]]:
    """Return a block for 8 x 8, with 3 x 3 convolutions as 1 x 3 parallel to 3 x 1."""
    return (
        [Conv("branch1x1", 320, 1)],
        [Conv("branch3x3_1", 384, 1), (Conv("branch3x3_2a", 384, (1, 3)), Conv("branch3x3_2b", 384, (3, 1)))],
        [
            Conv("branch3x3dbl_1", 448, 1),
            Conv("branch3x3dbl_2", 384, 3),
            (Conv("branch3x3dbl_3a", 384, (1, 3)), Conv("branch3x3dbl_3b", 384, (3, 1))),
        ],
        [AVERAGE, Conv("branch_pool", 192, 1)],
    )


STEM: Sequence[Layer] = (
    Conv("Conv2d_1a_3x3", 32, 3, 2),
    Conv("Conv2d_2a_3x3", 32, 3),  # this one and 4a do not pad
    Conv("Conv2d_2b_3x3", 64, 3),
    MAXIMUM,
    Conv("Conv2d_3b_1x1", 80, 1),
    Conv("Conv2d_4a_3x3", 192, 3),
    MAXIMUM,
)
UNPADDED = frozenset({"Conv2d_2a_3x3", "Conv2d_4a_3x3"})
BLOCKS = {
    "Mixed_5b": block_a(32),
    "Mixed_5c": block_a(64),
    "Mixed_5d": block_a(64),
    "Mixed_6a": block_b(),
    "Mixed_6b": block_c(128),
    "Mixed_6c": block_c(160),
    "Mixed_6d": block_c(160),
    "Mixed_6e": block_c(192),
    "Mixed_7a": block_d(),
    "Mixed_7b": block_e(),
    "Mixed_7c": block_e(),
}


class ConvBlock(nn.Module):
    """The modules of a Conv: convolution, batch normalization and ReLU."""

    def __init__(self, channels: int, of: Conv) -> None:
        super().__init__()
        kernel = (of.kernel, of.kernel) if isinstance(of.kernel, int) else of.kernel
        whole = of.stride == 1 and of.name not in UNPADDED
        padding = (kernel[0] // 2, kernel[1] // 2) if whole else 0
        self.conv = nn.Conv2d(channels, of.width, kernel, of.stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(of.width, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, channels, H, W] to [N, width, ...]."""
        return torch.relu(self.bn(self.conv(x)))


class Branches(nn.Module):
    """Branches with the same input, whose outputs are concatenated."""

    def __init__(self, channels: int, branches: Sequence[Sequence[Layer]]) -> None:
        super().__init__()
        self.branches = branches
        self.width = sum(add_layers(self, channels, layers) for layers in branches)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, channels, H, W] to [N, width, ...]."""
        return torch.cat([run_layers(self, layers, x) for layers in self.branches], 1)


def add_layers(to: nn.Module, channels: int, layers: Sequence[Layer]) -> int:
    """Add the convolutions of a sequence of layers to a module; return the channels of the last one."""
    for layer in layers:
        if isinstance(layer, str):
            continue
        branches = (layer,) if isinstance(layer, Conv) else layer
        for each in branches:
            to.add_module(each.name, ConvBlock(channels, each))
        channels = sum(each.width for each in branches)
    return channels


def run_layers(of: nn.Module, layers: Sequence[Layer], x: Tensor) -> Tensor:
    """Run a sequence of layers with the convolutions of a module."""
    for layer in layers:
        if layer == AVERAGE:
            x = nn.functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        elif layer == MAXIMUM:
            x = nn.functional.max_pool2d(x, 3, 2)
        elif isinstance(layer, Conv):
            x = of.get_submodule(layer.name)(x)
        else:
            x = torch.cat([of.get_submodule(each.name)(x) for each in layer if isinstance(each, Conv)], 1)
    return x


class InceptionV3(nn.Module):
    """Images [N, 299, 299, 3] from -1 to 1, as from DALI, to probabilities [N, 1001]."""

    def __init__(self) -> None:
        super().__init__()
        channels = add_layers(self, 3, STEM)
        for name, branches in BLOCKS.items():
            block = Branches(channels, branches)
            self.add_module(name, block)
            channels = block.width
        self.fc = nn.Linear(channels, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Return the probabilities."""
        x = run_layers(self, STEM, images.permute(0, 3, 1, 2))
        for name in BLOCKS:
            x = self.get_submodule(name)(x)
        return torch.softmax(self.fc(x.mean((2, 3))), 1)


def seeded(seed: int) -> InceptionV3:
    """Return the network with untrained weights whose probabilities differ between images, not decoders.

    Each filter has equal weights in its window: some pixels of a GPU's decoder differ by one level from the
    CPU's, and random weights would amplify that. Filters are centered over their channels: after a ReLU all
    values are positive, and without centering their mean would hide the differences between two images. GAIN
    compensates for centering and averaging.
    """
    network = InceptionV3()
    generator = torch.Generator().manual_seed(seed)
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            weights = torch.empty(module.weight.shape[:2])
            nn.init.kaiming_normal_(weights, nonlinearity="relu", generator=generator)
            if not name.startswith("Conv2d_1a"):  # sees the image, not a ReLU's output
                weights -= weights.mean(1, keepdim=True)
            window = module.weight[0, 0].numel()
            alike = weights.reshape(*weights.shape, *[1] * (module.weight.ndim - 2)) / window
            module.weight.data.copy_(alike.expand_as(module.weight))
        if isinstance(module, nn.BatchNorm2d):
            nn.init.constant_(module.weight, GAIN)
    network.fc.weight.data *= SPREAD
    nn.init.zeros_(network.fc.bias)
    return network
