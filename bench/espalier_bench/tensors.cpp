#include "tensors.h"

#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "espalier/base/little_endian.h"

namespace espalier::bench {
namespace {

// The weights of one transformer layer, in the naming of common language models.
constexpr std::array<std::array<std::string_view, 2>, 9> kLayer = {
    {{"input_layernorm", ""},
     {"mlp", "down_proj"},
     {"mlp", "gate_proj"},
     {"mlp", "up_proj"},
     {"post_attention_layernorm", ""},
     {"self_attn", "k_proj"},
     {"self_attn", "o_proj"},
     {"self_attn", "q_proj"},
     {"self_attn", "v_proj"}}};

// Fills `out` with the values of the tensor of this seed from element `first` on. Value number i is
// SplitMix64's i-th output, cut to 24 bits: evenly spread over -0.5 to 0.5, never zero.
void fill(std::uint64_t seed, std::uint64_t first, MutableByteSpan out) {
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;
  std::uint64_t state = seed + first * kStep;
  for (std::size_t at = 0; at + 4 <= out.size(); at += 4) {
    state += kStep;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const auto numerator = 2 * static_cast<std::int32_t>(z >> 40) + 1 - (1 << 24);
    store_le(out.data() + at, static_cast<float>(numerator) / static_cast<float>(1 << 25));
  }
}

TensorData in_memory(std::uint64_t seed, std::uint64_t elements) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(4 * elements));
  fill(seed, 0, bytes);
  return TensorData::owned(std::move(bytes));
}

Value tensor(TensorData data, std::uint64_t elements) {
  return Value::tensor(Tensor{.dtype = DType::kF32, .shape = {elements}, .data = std::move(data)});
}

Value tensor(std::uint64_t seed, std::uint64_t elements) {
  return tensor(in_memory(seed, elements), elements);
}

// The children of one layer; `make(weight)` returns the value for each weight.
template <class Make>
Value layer(std::uint64_t first, std::uint64_t count, const Make& make) {
  Value result = Value::dict();
  Value group = Value::dict();
  for (std::size_t i = 0; i < kLayer.size() && i < count; ++i) {
    const auto [outer, inner] = kLayer[i];
    if (inner.empty()) {
      result.add(Key(outer), make(first + i));
      continue;
    }
    group.add(Key(inner), make(first + i));
    const bool last = i + 1 == kLayer.size() || i + 1 == count || kLayer[i + 1][0] != outer;
    if (last) {
      result.add(Key(outer), std::move(group));
      group = Value::dict();
    }
  }
  return result;
}

template <class Make>
Value model(std::uint64_t weights, const Make& make) {
  Value layers = Value::list();
  for (std::uint64_t first = 0; first < weights; first += kLayer.size()) {
    layers.add(layer(first, weights - first, make));
  }
  return Value::dict({{"model", Value::dict({{"layers", std::move(layers)}})}});
}

}  // namespace

Value flat_state(std::uint64_t tensors, std::uint64_t bytes, bool produced) {
  Value state = Value::dict();
  const std::uint64_t elements = bytes / 4;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const std::uint64_t share = elements / tensors + (i < elements % tensors ? 1 : 0);
    // A writer asks for whole chunks, so every offset is that of a value.
    const auto produce = [i](std::uint64_t offset, MutableByteSpan out) -> Result<void> {
      fill(i, offset / 4, out);
      return {};
    };
    state.add(Key("tensor_" + std::to_string(i)),
              tensor(produced ? TensorData::produced(produce) : in_memory(i, share), share));
  }
  return state;
}

Value named_state(const std::string& names, std::uint64_t tensors, std::uint64_t elements) {
  if (names == "training") {
    const auto weight = [&](std::uint64_t i) {
      return Value::dict({{"weight", tensor(i, elements)}});
    };
    const auto moments = [&](std::uint64_t i) {
      return Value::dict({{"weight", Value::dict({{"exp_avg", tensor(i, elements)},
                                                  {"exp_avg_sq", tensor(i, elements)}})}});
    };
    const std::uint64_t weights = (tensors + 2) / 3;
    return Value::dict({{"state", model(weights, weight)},
                        {"optimizer", Value::dict({{"state", model(weights, moments)}})}});
  }
  if (names == "model") {
    return model(tensors, [&](std::uint64_t i) {
      return Value::dict({{"weight", tensor(i, elements)}});
    });
  }
  Value state = Value::dict();
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const auto [outer, inner] = kLayer[i % kLayer.size()];
    std::string name =
        "model.layers." + std::to_string(i / kLayer.size()) + "." + std::string(outer);
    if (!inner.empty()) name += "." + std::string(inner);
    state.add(Key(name + ".weight"), tensor(i, elements));
  }
  return state;
}

std::uint64_t sum_words(ByteSpan bytes) {
  // Several sums at once, so that no addition waits for the one before and memory bandwidth is the
  // limit.
  std::array<std::uint64_t, 8> sums = {};
  std::size_t i = 0;
  for (; i + 64 <= bytes.size(); i += 64) {
    for (std::size_t k = 0; k < 8; ++k) sums[k] += load_le<std::uint64_t>(bytes.data() + i + 8 * k);
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  for (; i + 8 <= bytes.size(); i += 8) sum += load_le<std::uint64_t>(bytes.data() + i);
  std::uint64_t last = 0;
  if (i < bytes.size()) std::memcpy(&last, bytes.data() + i, bytes.size() - i);
  return sum + last;
}

}  // namespace espalier::bench
