"""Networks: shapes at odd sizes, known parameter counts, what they refuse, and that they learn."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from setwise._checks import InputError
from setwise.app.images.models import SmallConvNet
from setwise_research.networks import DeepLabV3Plus, ResNet18, SegNet


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """These networks are so small that threads cost more than they bring."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def small_deeplab(classes: int = 11) -> DeepLabV3Plus:
    return DeepLabV3Plus(3, classes, width=16, rates=(2, 4), backbone=ResNet18(3, width=4, dilate_last=True))


NETWORKS: list[tuple[Callable[[], nn.Module], tuple[int, ...]]] = [
    (lambda: SmallConvNet(1, width=8), (1, 28, 28)),
    (lambda: SmallConvNet(3, 4, width=8), (3, 32, 32)),
    (lambda: ResNet18(3, 2, "cifar", width=4), (3, 32, 32)),
    (lambda: SegNet(3, 4, width=4), (3, 40, 33)),
    (small_deeplab, (3, 40, 33)),
]


@pytest.mark.parametrize(("outputs", "shape"), [(1, (2,)), (7, (2, 7))])
@pytest.mark.parametrize("size", [(28, 28), (96, 64), (33, 47)])
def test_classifiers_give_logits(outputs: int, shape: tuple[int, ...], size: tuple[int, int]) -> None:
    images = torch.rand(2, 3, *size)
    assert SmallConvNet(3, outputs, width=4)(images).shape == shape
    for stem in ("imagenet", "cifar"):
        assert ResNet18(3, outputs, stem, width=4)(images).shape == shape


@pytest.mark.parametrize("size", [(120, 160), (106, 160), (45, 51)])
@pytest.mark.parametrize("make", [lambda c: SegNet(3, c, width=4), small_deeplab])
def test_maps_have_the_size_of_the_input(make: Callable[[int], nn.Module], size: tuple[int, int]) -> None:
    images = torch.rand(1, 3, *size)
    assert make(11)(images).shape == (1, 11, *size)
    assert make(1)(images).shape == (1, *size)


def test_parameter_counts_are_the_known_ones() -> None:
    assert count(ResNet18(3, 1000)) == 11_689_512
    assert count(ResNet18(3, 10, "cifar")) == 11_173_962
    # VGG-16's 13 convolutions and their mirror without biases, batch norms, and 11 logits of 64 channels with biases.
    down = 9 * sum(a * b for a, b in _vgg_pairs())
    up = 9 * sum(b * a for a, b in _vgg_pairs()[1:])
    norms = 2 * sum(b for _, b in _vgg_pairs()) + 2 * sum(a for a, _ in _vgg_pairs()[1:])
    assert count(SegNet(3, 11)) == down + up + norms + (9 * 64 + 1) * 11


def _vgg_pairs() -> list[tuple[int, int]]:
    channels = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    return list(itertools.pairwise(channels))


def test_resnet_layout_has_the_usual_names_and_strides() -> None:
    net = ResNet18(3, 1000)
    names = dict(net.named_parameters())
    for name, shape in {
        "conv1.weight": (64, 3, 7, 7),
        "layer1.0.conv1.weight": (64, 64, 3, 3),
        "layer2.0.downsample.0.weight": (128, 64, 1, 1),
        "layer4.1.bn2.bias": (512,),
        "fc.weight": (1000, 512),
    }.items():
        assert tuple(names[name].shape) == shape
    assert len(names) == 62
    images = torch.rand(1, 3, 64, 64)
    for dilate, side in ((False, 2), (True, 4)):
        first, last = ResNet18(width=4, dilate_last=dilate).features(images)
        assert first.shape == (1, 4, 16, 16)
        assert last.shape == (1, 32, side, side)
    assert ResNet18(stem="cifar", width=4).features(images)[0].shape == (1, 4, 64, 64)


@pytest.mark.parametrize(("make", "shape"), NETWORKS)
def test_state_dict_round_trip_and_eval_mode(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    first, second = make(), make()
    first(torch.rand(4, *shape))  # moves the running statistics, which are part of the state
    second.load_state_dict(first.state_dict())
    first.eval()
    second.eval()
    images = torch.rand(3, *shape)
    with torch.no_grad():
        once, twice, other = first(images), first(images), second(images)
        alone = first(images[:1])
    assert torch.equal(once, twice)
    assert torch.equal(once, other)
    torch.testing.assert_close(alone, once[:1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("make", "shape"), NETWORKS)
def test_every_parameter_gets_a_gradient(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    network = make()
    output: Tensor = network(torch.rand(2, *shape))
    (output**2).sum().backward()
    without = [name for name, parameter in network.named_parameters() if parameter.grad is None]
    assert without == []


def test_a_batch_of_one_trains() -> None:
    image = torch.rand(1, 3, 40, 40)
    for network in (SegNet(3, 4, width=4, depth=3), small_deeplab()):
        assert torch.isfinite(network(image)).all()


@pytest.mark.parametrize("network", [SmallConvNet(3, width=4), ResNet18(3, width=4), SegNet(width=4), small_deeplab()])
def test_wrong_images_are_refused(network: nn.Module) -> None:
    for shape in ((3, 40, 40), (2, 1, 40, 40), (2, 40, 40, 3)):
        with pytest.raises(InputError, match=r"`input` of shape \(n, 3, h, w\), but got"):
            network(torch.rand(shape))
    with pytest.raises(TypeError, match=r"`input` to be a floating-point tensor, but got dtype torch.uint8"):
        network(torch.zeros(2, 3, 40, 40, dtype=torch.uint8))


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(InputError, match=r"at least 32 pixels high and wide, but got \(31, 40\)"):
        SegNet(width=4)(torch.rand(1, 3, 31, 40))
    assert SegNet(width=4, depth=2)(torch.rand(1, 3, 5, 4)).shape == (1, 11, 5, 4)
    with pytest.raises(InputError, match=r"`depth` to be in \[1, 5\]"):
        SegNet(depth=6)
    with pytest.raises(InputError, match=r"`stem` to be one of 'imagenet', 'cifar'"):
        ResNet18(stem="mnist")
    with pytest.raises(InputError, match=r"`rates\[0\]`"):
        DeepLabV3Plus(rates=(0,))
    with pytest.raises(InputError, match=r"`backbone` to take 1 channels"):
        DeepLabV3Plus(1, backbone=ResNet18(3, width=4))
    for make in (SmallConvNet, ResNet18):
        with pytest.raises(InputError, match=r"`outputs` to be at least 1"):
            make(3, 0)


def test_the_small_network_learns_in_a_moment() -> None:
    torch.manual_seed(0)
    labels = torch.arange(64) % 2
    images = 0.1 * torch.rand(64, 1, 28, 28)
    images[labels == 1, :, 8:16, 8:16] += 0.5  # a bright square
    network = SmallConvNet(1, width=8)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(15):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(network(images), labels.float()).backward()
        optimizer.step()
    network.eval()
    assert ((network(images) > 0) == (labels == 1)).float().mean() > 0.95
