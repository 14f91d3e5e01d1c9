"""Augmented images: moved a little, never invented."""

import pytest
import torch

from pacbayes.data.augmentation import crops_and_flips, image_side, moved_images


def blob(n=400, side=28):
    """A small square of ones in the middle of n images."""
    x = torch.zeros(n, side, side)
    x[:, 12:16, 12:16] = 1
    return x.view(n, -1)


def centers(x, side=28):
    at = torch.arange(side) - (side - 1) / 2
    image = x.view(-1, side, side)
    mass = image.sum((1, 2))
    return (image.sum(1) @ at) / mass, (image.sum(2) @ at) / mass


def test_images_are_shifted_by_at_most_two_pixels_and_on_average_not_at_all():
    moved = moved_images(blob(), torch.Generator().manual_seed(0))
    for center in centers(moved):
        assert center.abs().max() < 2 / 0.85 * 1.3  # a shift counts in the scaled, sheared image
        assert center.std() > 0.8
        assert center.mean().abs() < 5 * 1.3 / 400**0.5  # false alarm 6e-7


def test_sizes_change_by_the_scale_and_brightness_does_not_grow():
    moved = moved_images(blob(), torch.Generator().manual_seed(0))
    area = moved.sum(1) / 16
    assert 0.85**-2 + 0.1 > area.max() > 1.1
    assert 0.65 < area.min() < 0.9
    assert moved.max() <= 1
    assert moved.min() >= 0
    assert (moved > 0).float().mean() < 0.1  # the background stays empty


def test_the_generator_decides():
    first, again = (moved_images(blob(5), torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, moved_images(blob(5), torch.Generator().manual_seed(4)))
    many = moved_images(blob(1003), torch.Generator().manual_seed(3))  # in blocks
    assert many.shape == (1003, 784)


def test_images_of_any_shape_move_and_their_channels_move_together():
    x = torch.rand(6, 3, 10, 14, generator=torch.Generator().manual_seed(0)).round()
    moved = moved_images(x, torch.Generator().manual_seed(1))
    assert moved.shape == x.shape
    assert not torch.equal(moved, x)
    for i in range(3):
        alone = moved_images(x[:, i : i + 1], torch.Generator().manual_seed(1))
        assert torch.allclose(moved[:, i : i + 1], alone)
    square = x[..., :10].mean(1, keepdim=True)
    rows, images = (
        moved_images(given, torch.Generator().manual_seed(1))
        for given in (square.flatten(1), square)
    )
    assert torch.equal(rows, images.flatten(1))


def test_crops_and_flips_of_many_images_in_any_precision():
    x = torch.rand(1003, 4, 3, 9, dtype=torch.float64)
    moved = crops_and_flips(x, torch.Generator().manual_seed(0), margin=0)
    assert moved.dtype == torch.float64
    same, mirrored = ((moved == given).flatten(1).all(1) for given in (x, x.flip(3)))
    assert (same ^ mirrored).all()
    assert 0.4 < same.double().mean() < 0.6


@pytest.mark.parametrize("features", [783, 4])
def test_what_is_no_image_is_refused(features):
    with pytest.raises(ValueError, match=f"needs square images.*got {features} features"):
        image_side(features)


def test_crops_move_an_image_within_its_margin_and_flips_mirror_half():
    x = torch.zeros(2000, 2, 5, 6)
    x[:, 0, 2, 1], x[:, 1, 2, 1] = 1.0, 2.0  # one pixel, twice as bright in the second channel
    moved = crops_and_flips(x, torch.Generator().manual_seed(0), margin=1)
    assert moved.shape == x.shape
    assert torch.equal(2 * moved[:, 0], moved[:, 1])
    places, counts = moved[:, 0].nonzero()[:, 1:].unique(dim=0, return_counts=True)
    assert places.tolist() == [[r, c] for r in (1, 2, 3) for c in (0, 1, 2, 3, 4, 5)]
    assert (counts - 2000 / 18).abs().max() < 5 * (2000 / 18) ** 0.5  # below 1e-5
    again = crops_and_flips(x, torch.Generator().manual_seed(0), margin=1)
    assert torch.equal(moved, again)


def test_crops_fill_with_zeros_and_rows_are_refused():
    x = torch.ones(300, 1, 4, 4)
    sums = crops_and_flips(x, torch.Generator().manual_seed(0), margin=2).sum((1, 2, 3))
    assert set(sums.tolist()) == {4.0, 6.0, 8.0, 9.0, 12.0, 16.0}
    with pytest.raises(ValueError, match=r"Dataset.images\(\)"):
        crops_and_flips(x.flatten(1), torch.Generator())
