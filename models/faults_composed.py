"""Faults of whole models and of attention's relatives: pooling, patches, embeddings, sets, kernels, linear forms."""

from __future__ import annotations

import torch
from torch import Tensor

from onnxparity.models.attention import merge_heads, split_heads
from onnxparity.models.classifier import TextClassifier, _counted_sinusoids
from onnxparity.models.convolution import ConvolutionByAttention
from onnxparity.models.kernel_regression import KernelRegression
from onnxparity.models.linear_attention import FLOOR, CausalLinearAttention, LinearAttention, positive_features
from onnxparity.models.positions import sinusoids
from onnxparity.models.set_transformer import InducedSetAttention, PoolingByAttention
from onnxparity.models.stacks import padding_rows
from onnxparity.models.translation import Translation
from onnxparity.models.vision import VisionTransformer

__all__ = [
    "bandwidth_not_squared",
    "count_folded",
    "embedding_unscaled",
    "features_relu",
    "half_left_out",
    "kernel_flipped",
    "last_token_read",
    "mean_over_padding",
    "normaliser_dropped",
    "over_columns",
    "pads_with_edges",
    "patches_by_columns",
    "points_not_induced",
    "pooled_without_network",
    "positions_count_padding",
    "running_sum_excludes_itself",
    "source_and_target_tables",
]


def mean_over_padding(self: TextClassifier, input_ids: Tensor, mask: Tensor) -> Tensor:
    """The mean is taken over all positions, padding included."""
    x = self.embedding(input_ids)  # (B, T, E)
    x = x + _counted_sinusoids(mask, x)
    keep = padding_rows(mask, x.shape[1])  # (B, 1, T, T)
    for block in self.blocks:
        x = block(x, keep)
    logits: Tensor = self.logits(self.norm(x).mean(dim=1))
    return logits


def count_folded(self: TextClassifier, input_ids: Tensor, mask: Tensor) -> Tensor:
    """The number of tokens is that of the example it was traced with."""
    x = self.embedding(input_ids)  # (B, T, E)
    x = x + _counted_sinusoids(mask, x)
    keep = padding_rows(mask, x.shape[1])  # (B, 1, T, T)
    for block in self.blocks:
        x = block(x, keep)
    x = torch.where(mask[..., None], self.norm(x), 0)
    logits: Tensor = self.logits(x.sum(dim=1) / 5)
    return logits


def positions_count_padding(self: TextClassifier, input_ids: Tensor, mask: Tensor) -> Tensor:
    """Positions count every token, so that padding on the left shifts the rest."""
    x = self.embedding(input_ids)  # (B, T, E)
    x = x + sinusoids(x)
    keep = padding_rows(mask, x.shape[1])  # (B, 1, T, T)
    for block in self.blocks:
        x = block(x, keep)
    x = torch.where(mask[..., None], self.norm(x), 0)
    count = mask.sum(dim=1, keepdim=True).clamp(min=1)  # (B, 1)
    logits: Tensor = self.logits(x.sum(dim=1) / count)
    return logits


def patches_by_columns(self: VisionTransformer, images: Tensor) -> Tensor:
    """Patches are laid out column by column instead of row by row."""
    patches = self.patches(images).transpose(2, 3).flatten(2).transpose(1, 2)
    x = torch.cat([self.class_token.expand(images.shape[0], -1, -1), patches], dim=1) + self.positions
    for block in self.blocks:
        x = block(x)
    logits: Tensor = self.logits(self.norm(x[:, 0]))
    return logits


def last_token_read(self: VisionTransformer, images: Tensor) -> Tensor:
    """The decision is read from the last patch instead of the class token."""
    patches = self.patches(images).flatten(2).transpose(1, 2)  # (B, N, E)
    x = torch.cat([self.class_token.expand(images.shape[0], -1, -1), patches], dim=1) + self.positions
    for block in self.blocks:
        x = block(x)
    logits: Tensor = self.logits(self.norm(x[:, -1]))
    return logits


def embedding_unscaled(self: Translation, source_ids: Tensor, source_mask: Tensor, target_ids: Tensor) -> Tensor:
    """The target's embeddings are not multiplied by sqrt(E)."""
    source = self.source_embedding(source_ids) * self.scale  # (B, S, E)
    source = source + sinusoids(source)
    for block in self.encoder:
        source = block(source, padding_rows(source_mask, source.shape[1]))
    target = self.target_embedding(target_ids)
    target = target + sinusoids(target)
    for block in self.decoder:
        target = block(target, source, padding_rows(source_mask, target.shape[1]))
    logits: Tensor = self.logits(target)
    return logits


def source_and_target_tables(self: Translation, source_ids: Tensor, source_mask: Tensor, target_ids: Tensor) -> Tensor:
    """Source and target tokens are looked up in each other's tables."""
    source = self.target_embedding(source_ids) * self.scale
    source = source + sinusoids(source)
    for block in self.encoder:
        source = block(source, padding_rows(source_mask, source.shape[1]))
    target = self.source_embedding(target_ids) * self.scale
    target = target + sinusoids(target)
    for block in self.decoder:
        target = block(target, source, padding_rows(source_mask, target.shape[1]))
    logits: Tensor = self.logits(target)
    return logits


def normaliser_dropped(self: LinearAttention, x: Tensor) -> Tensor:
    """What is read is not divided by the sum of its weights."""
    query = positive_features(split_heads(self.query(x), self.num_heads))  # (B, H, T, D)
    key = positive_features(split_heads(self.key(x), self.num_heads))
    value = split_heads(self.value(x), self.num_heads)
    memory = key.transpose(-2, -1) @ value  # (B, H, D, D)
    out: Tensor = self.out(merge_heads(query @ memory))
    return out


def features_relu(self: LinearAttention, x: Tensor) -> Tensor:
    """ReLU features for the keys instead of elu + 1."""
    query = positive_features(split_heads(self.query(x), self.num_heads))  # (B, H, T, D)
    key = torch.relu(split_heads(self.key(x), self.num_heads))
    value = split_heads(self.value(x), self.num_heads)
    memory = key.transpose(-2, -1) @ value  # (B, H, D, D)
    normaliser = query @ key.sum(-2).unsqueeze(-1)  # (B, H, T, 1)
    out: Tensor = self.out(merge_heads((query @ memory) / (normaliser + FLOOR)))
    return out


def running_sum_excludes_itself(self: CausalLinearAttention, x: Tensor) -> Tensor:
    """Each position reads the sum of what came before it, without itself."""
    query = positive_features(split_heads(self.query(x), self.num_heads))  # (B, H, T, D)
    key = positive_features(split_heads(self.key(x), self.num_heads))
    value = split_heads(self.value(x), self.num_heads)
    products = key.unsqueeze(-1) * value.unsqueeze(-2)
    memory = torch.cumsum(products, dim=2) - products
    normaliser = (query * torch.cumsum(key, dim=2)).sum(-1, keepdim=True)  # (B, H, T, 1)
    read = (query.unsqueeze(-2) @ memory).squeeze(-2) / (normaliser + FLOOR)
    out: Tensor = self.out(merge_heads(read))
    return out


def pooled_without_network(self: PoolingByAttention, x: Tensor) -> Tensor:
    """The set is pooled as it comes, without the network before."""
    out: Tensor = self.block(self.seeds.expand(x.shape[0], -1, -1), x)
    return out


def points_not_induced(self: InducedSetAttention, x: Tensor) -> Tensor:
    """The set reads the learned points, which have not read the set."""
    summary = self.points.expand(x.shape[0], -1, -1)
    out: Tensor = self.block(x, summary)
    return out


def bandwidth_not_squared(self: KernelRegression, query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The squared distance is divided by the bandwidth instead of its square."""
    steps = query.unsqueeze(2) - keys.unsqueeze(1)
    weights = torch.softmax(-0.5 * (steps * steps).sum(-1) / self.bandwidth, dim=-1)
    return weights @ values, weights


def half_left_out(self: KernelRegression, query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The Gaussian's factor of one half is left out."""
    steps = (query.unsqueeze(2) - keys.unsqueeze(1)) / self.bandwidth  # (B, T, S, D)
    weights = torch.softmax(-(steps * steps).sum(-1), dim=-1)
    return weights @ values, weights


def over_columns(self: KernelRegression, query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Weights sum to 1 over queries instead of keys."""
    steps = (query.unsqueeze(2) - keys.unsqueeze(1)) / self.bandwidth  # (B, T, S, D)
    weights = torch.softmax(-0.5 * (steps * steps).sum(-1), dim=1)
    return weights @ values, weights


def kernel_flipped(self: ConvolutionByAttention, size: int, offset: Tensor) -> Tensor:
    """Each head reads the opposite offset: a true convolution where a correlation is meant."""
    queries = torch.arange(size).to(offset.dtype) + self.reach
    keys = torch.arange(size + 2 * self.reach).to(offset.dtype)
    delta = queries[:, None] - keys
    return self.sharpness * (2 * delta * offset - delta * delta)


def pads_with_edges(self: ConvolutionByAttention, images: Tensor) -> Tensor:
    """The border is padded with its own pixels instead of zeros."""
    height, width = images.shape[2], images.shape[3]
    padded = torch.nn.functional.pad(images, (self.reach,) * 4, mode="replicate")
    keys = padded.flatten(2).transpose(1, 2)  # (B, S, C), S pixels of the padded image
    rows = self._scores(height, self.row_offset)[:, :, None, :, None]  # (K*K, H, 1, H', 1)
    columns = self._scores(width, self.column_offset)[:, None, :, None, :]  # (K*K, 1, W, 1, W')
    weights = torch.softmax((rows + columns).flatten(3).flatten(1, 2), dim=-1)  # (K*K, T, S)
    read = torch.matmul(weights, keys.unsqueeze(1))  # (B, K*K, T, C)
    out: Tensor = self.output(read.transpose(1, 2).flatten(2))  # (B, T, M)
    return out.transpose(1, 2).reshape(images.shape[0], -1, height, width)
