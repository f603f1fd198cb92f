"""The ResNet-50 network, with torchvision's parameter names, so that torchvision's weights load into it.

He et al., "Deep Residual Learning for Image Recognition", 2015. As in torchvision, the stride of a block is
in its 3x3 convolution ("v1.5").
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride of the first block
EXPANSION = 4


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions with a parallel shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = width * EXPANSION
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.downsample = nn.Sequential()
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, channels, H, W] to [N, 4 * width, H / stride, W / stride]."""
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return torch.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class ResNet50(nn.Module):
    """Images [N, 3, 224, 224], normalized as the weights expect, to logits [N, 1000]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        channels = 64
        for number, (width, blocks, stride) in enumerate(STAGES, start=1):
            layer = nn.Sequential()
            for block in range(blocks):
                layer.append(Bottleneck(channels, width, stride if block == 0 else 1))
                channels = width * EXPANSION
            self.add_module(f"layer{number}", layer)
        self.fc = nn.Linear(channels, 1000)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for number in range(1, len(STAGES) + 1):
            x = self.get_submodule(f"layer{number}")(x)
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits


def seeded(seed: int) -> ResNet50:
    """Return the network with untrained weights whose logits differ between images.

    He initialization keeps the variance through a convolution, and a gain of a half at the end of each of the
    sixteen blocks keeps rounding errors from growing. Filters are centered: after a ReLU all values are
    positive, and without centering their mean would hide the differences between two images.
    """
    network = ResNet50()
    generator = torch.Generator().manual_seed(seed)
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
            if name != "conv1":  # sees the image, not a ReLU's output
                module.weight.data -= module.weight.data.mean(
                    tuple(range(1, module.weight.ndim)), keepdim=True
                )
        if isinstance(module, nn.BatchNorm2d) and name.endswith("bn3"):
            nn.init.constant_(module.weight, 0.5)
    nn.init.zeros_(network.fc.bias)
    return network
