#include "support/random_tree.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <utility>

#include "support/equal.h"

#include "espalier/base/little_endian.h"
#include "espalier/dtype.h"

namespace espalier::testing {
namespace {

using namespace std::string_literals;

const std::vector<std::string> kTexts = {"",
                                         "0",
                                         "-1",
                                         "1",
                                         "007",
                                         "-0",
                                         "~",
                                         "/",
                                         "~2",
                                         "~20",
                                         "a/b",
                                         "m~n",
                                         " ",
                                         "é",
                                         "日本",
                                         "\U0001F333",
                                         "\0x"s,
                                         "*",
                                         "**",
                                         "[0]",
                                         "a",
                                         "b",
                                         "w",
                                         "bias",
                                         "step",
                                         "weight",
                                         "exp_avg",
                                         "param_groups",
                                         "\xEF\xBF\xBF",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "-9223372036854775808",
                                         "state"};

const std::vector<std::string> kLabels = {"", "collections.OrderedDict", "torch.Size",
                                          "optax.ScaleByAdamState", "label"};

const std::vector<std::uint64_t> kDoubles = {
    0x0000000000000000u,  // 0.0
    0x8000000000000000u,  // -0.0
    0x7FF0000000000000u,  // infinity
    0xFFF0000000000000u,
    0x7FF8000000000000u,  // the usual NaN
    0x7FF0000000000001u,  // a signalling NaN
    0xFFF8DEADBEEF1234u,  // a NaN with a payload
    0x0000000000000001u,  // the smallest number
    0x7FEFFFFFFFFFFFFFu,  // the largest number
    0x3FB999999999999Au,  // 0.1
};

std::vector<std::byte> random_bytes(Random& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) store_le(bytes.data() + i, random.bits());
  for (; i < size; ++i) bytes[i] = static_cast<std::byte>(random.below(256));
  return bytes;
}

// Leaves little of the randomness, in one of the ways that compression knows: the same bytes over
// and over, or each element's last byte one of a few.
void make_compressible(Random& random, std::vector<std::byte>& bytes, std::size_t width) {
  const std::size_t period = random.one_in(2) ? 0 : 1 + random.below(100);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (period != 0 && i >= period) {
      bytes[i] = bytes[i - period];
    } else if (period == 0 && i % width == width - 1) {
      bytes[i] &= std::byte{0x03};
    }
  }
}

}  // namespace

Value RandomTree::state() {
  tensors_allowed_ = true;
  budget_ = static_cast<std::size_t>(random_.below(200));
  Value root = value(0);
  if (!large_) return root;
  return Value::dict({{"rest", std::move(root)}, {"large", tensor()}});
}

Value RandomTree::metadata() {
  tensors_allowed_ = false;
  budget_ = static_cast<std::size_t>(random_.below(12));
  Value root = Value::dict(random_.one_in(2) ? items(1, false) : std::vector<Value::Item>());
  return random_.one_in(10) ? std::move(root).labelled(random_.pick(kLabels)) : root;
}

Value RandomTree::value(unsigned depth) {
  const bool deep = depth >= 12 || budget_ == 0;
  const std::uint64_t choice = random_.below(10);
  Value made = !deep && choice < (depth == 0 ? 9u : 4u) ? container(depth)
               : choice < 8                             ? scalar()
               : tensors_allowed_                       ? tensor()
                                                        : scalar();
  return random_.one_in(8) ? std::move(made).labelled(random_.pick(kLabels)) : made;
}

Value RandomTree::scalar() {
  switch (random_.below(8)) {
    case 0:
      return Value::null();
    case 1:
      return Value::boolean(random_.one_in(2));
    case 2:
      return Value::integer(random_.one_in(3) ? std::bit_cast<std::int64_t>(random_.bits())
                                              : random_.between(-2, 1000));
    case 3:
      return Value::integer(big_int());
    case 4:
      return Value::real(real());
    case 5:
      return Value::complex({real(), real()});
    case 6:
      return Value::string(text());
    default:
      return Value::bytes(random_bytes(random_, random_.below(20)));
  }
}

Value RandomTree::container(unsigned depth) {
  switch (random_.below(8)) {
    case 0:
      return Value::list(elements(depth + 1));
    case 1:
      return Value::tuple(elements(depth + 1));
    case 2:
      return Value::record(items(depth + 1, true));
    case 3: {
      std::vector<Value> distinct;
      for (std::size_t i = child_count(); i > 0; --i) {
        Value element = element_of_set();
        const bool twice = std::any_of(distinct.begin(), distinct.end(), [&](const Value& other) {
          return first_difference(element, other).empty();
        });
        if (!twice) distinct.push_back(std::move(element));
      }
      return Value::set(std::move(distinct));
    }
    default:
      return Value::dict(items(depth + 1, false));
  }
}

Value RandomTree::element_of_set() {
  if (random_.one_in(6)) return Value::tuple({scalar(), scalar()});
  Value element = scalar();
  return random_.one_in(10) ? std::move(element).labelled(random_.pick(kLabels)) : element;
}

// Mostly few children; sometimes none, sometimes more than the 8 from which on a dict has an order.
std::size_t RandomTree::child_count() {
  const std::uint64_t most = random_.one_in(4) ? 24 : 6;
  const auto count =
      static_cast<std::size_t>(std::min<std::uint64_t>(random_.below(most), budget_));
  budget_ -= count;
  return count;
}

std::vector<Value> RandomTree::elements(unsigned depth) {
  std::vector<Value> made;
  for (std::size_t i = child_count(); i > 0; --i) made.push_back(value(depth));
  return made;
}

std::vector<Value::Item> RandomTree::items(unsigned depth, bool only_text) {
  std::vector<Key> keys;
  const bool ascending = random_.one_in(4);
  for (std::size_t i = child_count(); i > 0; --i) {
    Key next = only_text ? Key(text()) : key();
    if (std::find(keys.begin(), keys.end(), next) == keys.end()) keys.push_back(std::move(next));
  }
  if (ascending) std::sort(keys.begin(), keys.end());
  std::vector<Value::Item> made;
  for (Key& next : keys) made.emplace_back(std::move(next), value(depth));
  return made;
}

Key RandomTree::key() {
  if (random_.one_in(2)) return Key(text());
  if (random_.one_in(8)) return Key(std::bit_cast<std::int64_t>(random_.bits()));
  return Key(random_.between(-1, 30));
}

std::string RandomTree::text() {
  std::string made = random_.pick(kTexts);
  while (random_.one_in(3)) made += random_.pick(kTexts);
  return made;
}

BigInt RandomTree::big_int() {
  for (;;) {
    const auto bytes = random_bytes(random_, random_.one_in(3) ? 1 + random_.below(40) : 9);
    if (auto made = BigInt::from_bytes(bytes)) return std::move(*made);
  }
}

double RandomTree::real() {
  const std::uint64_t bits = random_.one_in(2) ? random_.pick(kDoubles) : random_.bits();
  return std::bit_cast<double>(bits);
}

Value RandomTree::tensor() {
  if (!tensors_.empty() && random_.one_in(4)) return Value::tensor(random_.pick(tensors_));
  auto made = new_tensor();
  if (!made->data.is_placeholder()) tensors_.push_back(made);
  return Value::tensor(std::move(made));
}

std::shared_ptr<const Tensor> RandomTree::new_tensor() {
  Tensor tensor;
  tensor.dtype = static_cast<DType>(1 + random_.below(kLastDType));
  for (std::uint64_t axes = random_.below(5); axes > 0; --axes) {
    tensor.shape.push_back(random_.one_in(12) ? 0 : 1 + random_.below(5));
  }
  if (std::exchange(large_, false)) {
    // Between one and three chunks, and of an odd size.
    tensor.shape = {1025 + random_.below(2000), 1024 / std::max(1u, dtype_bits(tensor.dtype)) * 8};
  }
  if (tensor.dtype == DType::kOpaque) {
    tensor.block_name = random_.one_in(8) ? text() : "q" + std::to_string(random_.below(3));
    tensor.block_elements = static_cast<std::uint32_t>(1 + random_.below(32));
    tensor.block_bytes = static_cast<std::uint32_t>(1 + random_.below(40));
    if (tensor.shape.empty()) tensor.shape.push_back(2);
    if (tensor.shape.back() > 1000) tensor.shape.back() = 64;
    tensor.shape.back() *= tensor.block_elements;
  } else if (dtype_bits(tensor.dtype) % 8 != 0) {
    tensor.shape.push_back(4);  // four elements of 2, 4 or 6 bits are whole bytes
  }
  if (!tensor.shape.empty() && random_.one_in(4)) {
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) tensor.axis_names.push_back(text());
  }
  if (random_.one_in(8)) return std::make_shared<const Tensor>(std::move(tensor));
  const auto size = tensor_bytes(tensor.dtype, tensor.shape, tensor.block()).value_or(0);
  auto bytes = random_bytes(random_, static_cast<std::size_t>(size));
  if (random_.one_in(3)) {
    make_compressible(random_, bytes, std::max(dtype_bits(tensor.dtype) / 8, 1u));
  }
  if (tensor.dtype == DType::kBool) {
    for (std::byte& byte : bytes) byte &= std::byte{1};
  }
  if (random_.one_in(4)) {
    // Made on demand, in pieces of any size.
    tensor.data = TensorData::produced(
        [held = std::move(bytes)](std::uint64_t offset, MutableByteSpan out) -> Result<void> {
          std::copy_n(held.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
          return {};
        });
  } else {
    tensor.data = TensorData::owned(std::move(bytes));
  }
  return std::make_shared<const Tensor>(std::move(tensor));
}

Value shuffled(const Value& value, Random& random) {
  if (!is_container(value.kind())) return value;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < value.children().size(); ++i) order.push_back(i);
  if (value.kind() != Kind::kList && value.kind() != Kind::kTuple) random.shuffle(order);
  Value made = value.kind() == Kind::kDict     ? Value::dict()
               : value.kind() == Kind::kRecord ? Value::record()
               : value.kind() == Kind::kList   ? Value::list()
               : value.kind() == Kind::kTuple  ? Value::tuple()
                                               : Value::set();
  for (const std::size_t i : order) {
    Value child = shuffled(value.children()[i], random);
    if (has_keys(value.kind())) {
      made.add(value.keys()[i], std::move(child));
    } else {
      made.add(std::move(child));
    }
  }
  return value.has_label() ? std::move(made).labelled(std::string(value.label())) : made;
}

}  // namespace espalier::testing
