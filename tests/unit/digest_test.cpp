#include "espalier/format/digest.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "support/memory_file.h"
#include <doctest/doctest.h>

#include "espalier/bytes.h"
#include "espalier/codec/hash.h"

namespace espalier {
namespace {

using testing::bytes_of;

// docs/format.md section 8, written down by hand: encodings as text that gets hashed.
std::string hash(const std::string& encoding) {
  const Hash128 h = hash128(as_bytes(encoding));
  return std::string(reinterpret_cast<const char*>(&h), sizeof h);
}
template <class T>
std::string raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}
std::string u8(unsigned value) { return std::string(1, static_cast<char>(value)); }
std::string u32(std::uint32_t value) { return raw(value); }
std::string text_key(const std::string& key) { return u8(1) + hash(key); }
std::string int_key(std::int64_t key) { return u8(2) + raw(key); }

// The library's digest, from the header of a file.
std::string digest(const Value& state, const Value& metadata = Value::dict()) {
  const auto file = testing::write_file(state, metadata);
  if (!file) return file.error().describe();
  const auto checkpoint = testing::open_file(*file);
  if (!checkpoint) return checkpoint.error().describe();
  return raw(*checkpoint->catalog().tree_digest());
}

Tensor f32(std::initializer_list<float> values) {
  Tensor tensor;
  tensor.dtype = DType::kF32;
  tensor.shape = {values.size()};
  tensor.data = TensorData::owned(bytes_of<float>(values));
  return tensor;
}

TEST_CASE("Digests of nodes that are hashed in pieces, by hand") {
  Value dict = Value::dict();
  std::string encoding;
  for (std::int64_t key = 0; key < 5000; ++key) {
    dict.add(Key(key), Value::boolean(key % 3 == 0));
    encoding += int_key(key) + hash(u8(2) + u8(0) + u8(key % 3 == 0 ? 1 : 0));
  }
  CHECK(digest(dict) == hash(u8(9) + u8(0) + u32(5000) + encoding));
  for (const std::size_t size : {65525u, 65530u, 65531u, 65536u, 65537u, 200000u}) {
    const std::vector<std::byte> bytes(size, std::byte{'x'});
    CHECK(digest(Value::bytes(bytes)) ==
          hash(u8(8) + u8(0) + u32(static_cast<std::uint32_t>(size)) + std::string(size, 'x')));
  }
}

TEST_CASE("Digests of scalars, by hand") {
  CHECK(digest(Value::null()) == hash(u8(1) + u8(0)));
  CHECK(digest(Value::boolean(true)) == hash(u8(2) + u8(0) + u8(1)));
  CHECK(digest(Value::boolean(false)) == hash(u8(2) + u8(0) + u8(0)));
  CHECK(digest(Value::integer(-2)) == hash(u8(3) + u8(0) + raw(std::int64_t{-2})));
  CHECK(digest(Value::real(0.5)) == hash(u8(5) + u8(0) + raw(0.5)));
  CHECK(digest(Value::complex({1, -0.0})) == hash(u8(6) + u8(0) + raw(1.0) + raw(-0.0)));
  CHECK(digest(Value::string("é")) == hash(u8(7) + u8(0) + hash("é")));
  CHECK(digest(Value::bytes(bytes_of<char>({'a', 'b'}))) == hash(u8(8) + u8(0) + u32(2) + "ab"));
  const auto big = BigInt::from_decimal("18446744073709551616");
  REQUIRE(big);
  CHECK(digest(Value::integer(*big)) ==
        hash(u8(4) + u8(0) + u32(9) + std::string(8, '\0') + u8(1)));
  CHECK(digest(Value::null().labelled("L")) == hash(u8(1) + u8(1) + hash("L")));
  CHECK(digest(Value::null().labelled("")) == hash(u8(1) + u8(1) + hash("")));
}

TEST_CASE("Digests of containers, by hand") {
  const std::string null = hash(u8(1) + u8(0));
  const std::string yes = hash(u8(2) + u8(0) + u8(1));
  CHECK(digest(Value::dict()) == hash(u8(9) + u8(0) + u32(0)));
  CHECK(digest(Value::list({Value::null(), Value::boolean(true)})) ==
        hash(u8(10) + u8(0) + u32(2) + null + yes));
  CHECK(digest(Value::tuple({Value::boolean(true)})) == hash(u8(11) + u8(0) + u32(1) + yes));
  CHECK(digest(Value::set({Value::null(), Value::boolean(true)})) ==
        hash(u8(12) + u8(0) + u32(2) + std::min(null, yes) + std::max(null, yes)));
  CHECK(digest(Value::record({{"b", Value::null()}, {"a", Value::boolean(true)}})) ==
        hash(u8(13) + u8(0) + u32(2) + text_key("a") + yes + text_key("b") + null));
  CHECK(
      digest(Value::dict({{"0", Value::null()}, {7, Value::null()}, {-1, Value::boolean(true)}})) ==
      hash(u8(9) + u8(0) + u32(3) + int_key(-1) + yes + int_key(7) + null + text_key("0") + null));
}

TEST_CASE("Digests of tensors, by hand") {
  const Tensor plain = f32({1, 2});
  const std::string contents = hash(raw(1.0f) + raw(2.0f));
  const std::string shape = u32(1) + raw(std::uint64_t{2});
  CHECK(digest(Value::tensor(plain)) ==
        hash(u8(14) + u8(0) + hash(u8(12) + shape + u8(0) + contents)));

  Tensor named = f32({1, 2});
  named.axis_names = {"rows"};
  CHECK(digest(Value::tensor(named)) ==
        hash(u8(14) + u8(0) + hash(u8(12) + shape + u8(1) + hash("rows") + contents)));

  Tensor hole = f32({1, 2});
  hole.data = TensorData();
  CHECK(digest(Value::tensor(hole)) == hash(u8(15) + u8(0) + hash(u8(12) + shape + u8(0))));

  Tensor scalar = f32({1});
  scalar.shape = {};
  CHECK(digest(Value::tensor(scalar)) ==
        hash(u8(14) + u8(0) + hash(u8(12) + u32(0) + u8(0) + hash(raw(1.0f)))));

  Tensor opaque = f32({1, 2});
  opaque.dtype = DType::kOpaque;
  opaque.block_name = "q";
  opaque.block_elements = 2;
  opaque.block_bytes = 8;
  CHECK(
      digest(Value::tensor(opaque)) ==
      hash(u8(14) + u8(0) + hash(u8(28) + shape + hash("q") + u32(2) + u32(8) + u8(0) + contents)));

  Tensor large;
  large.dtype = DType::kU8;
  large.shape = {kChunkBytes + 1};
  large.data = TensorData::owned(std::vector<std::byte>(kChunkBytes + 1, std::byte{3}));
  CHECK(digest(Value::tensor(large)) ==
        hash(u8(14) + u8(0) +
             hash(u8(3) + u32(1) + raw(std::uint64_t{kChunkBytes + 1}) + u8(0) +
                  hash(std::string(kChunkBytes, '\3')) + hash("\3"))));
}

TEST_CASE("The order of keys does not matter, in small dicts or large ones") {
  for (const std::int64_t size : {3, 8, 9, 40}) {
    Value up = Value::dict();
    Value down = Value::dict();
    Value mixed = Value::dict();
    for (std::int64_t i = 0; i < size; ++i) up.add(i, Value::integer(i));
    for (std::int64_t i = size; i-- > 0;) down.add(i, Value::integer(i));
    for (std::int64_t i = 0; i < size; ++i) {
      // 7 has no divisor in common with any of the sizes.
      mixed.add(i * 7 % size, Value::integer(i * 7 % size));
    }
    CAPTURE(size);
    CHECK(digest(up) == digest(down));
    CHECK(digest(up) == digest(mixed));
  }
  CHECK(digest(Value::set({Value::integer(1), Value::integer(2), Value::integer(3)})) ==
        digest(Value::set({Value::integer(3), Value::integer(1), Value::integer(2)})));
}

TEST_CASE("Metadata and ties are no part of the digest") {
  CHECK(digest(Value::null()) == digest(Value::null(), Value::dict({{"date", Value::integer(1)}})));
  const auto shared = std::make_shared<const Tensor>(f32({1, 2}));
  const Value tied = Value::list({Value::tensor(shared), Value::tensor(shared)});
  const Value apart = Value::list({Value::tensor(f32({1, 2})), Value::tensor(f32({1, 2}))});
  CHECK(digest(tied) == digest(apart));
}

TEST_CASE("Ties between other tensors do not change a digest") {
  const Value a = Value::tensor(f32({1}));
  const auto copy_of_a = [] { return Value::tensor(f32({1})); };
  const auto b = [] { return Value::tensor(f32({2, 3})); };
  CHECK(digest(Value::list({a, a, b(), a, b()})) ==
        digest(Value::list({copy_of_a(), copy_of_a(), b(), copy_of_a(), b()})));
}

TEST_CASE("Every other difference changes the digest") {
  const auto with = [](auto change) {
    Tensor tensor = f32({1, 2, 3, 4, 5, 6});
    change(tensor);
    return Value::list({Value::tensor(std::move(tensor))});
  };
  const auto block = [](const char* name, std::uint32_t elements, std::uint32_t bytes) {
    return [=](Tensor& t) {
      t.dtype = DType::kOpaque;
      t.block_name = name;
      t.block_elements = elements;
      t.block_bytes = bytes;
    };
  };
  const std::map<std::string, Value> values = {
      {"null", Value::null()},
      {"label", Value::null().labelled("a")},
      {"other label", Value::null().labelled("b")},
      {"empty label", Value::null().labelled("")},
      {"false", Value::boolean(false)},
      {"0", Value::integer(0)},
      {"1", Value::integer(1)},
      {"0.0", Value::real(0.0)},
      {"-0.0", Value::real(-0.0)},
      {"0j", Value::complex({0, 0})},
      {"empty string", Value::string("")},
      {"string 0", Value::string("0")},
      {"empty bytes", Value::bytes({})},
      {"bytes 0", Value::bytes(bytes_of<char>({'0'}))},
      {"empty dict", Value::dict()},
      {"empty list", Value::list()},
      {"empty tuple", Value::tuple()},
      {"empty set", Value::set()},
      {"empty record", Value::record()},
      {"int key", Value::dict({{0, Value::null()}})},
      {"text key", Value::dict({{"0", Value::null()}})},
      {"other key", Value::dict({{"1", Value::null()}})},
      {"record", Value::record({{"0", Value::null()}})},
      {"list", Value::list({Value::null()})},
      {"nested list", Value::list({Value::list({Value::null()})})},
      {"two nulls", Value::list({Value::null(), Value::null()})},
      {"set", Value::set({Value::null()})},
      {"tensor", with([](Tensor&) {})},
      {"dtype", with([](Tensor& t) { t.dtype = DType::kI32; })},
      {"value", with([](Tensor& t) {
         t.data = f32({1, 2, 3, 4, 5, 7}).data;
       })},
      {"shape", with([](Tensor& t) {
         t.shape = {2, 3};
       })},
      {"transposed", with([](Tensor& t) {
         t.shape = {3, 2};
       })},
      {"a further axis", with([](Tensor& t) {
         t.shape = {6, 1};
       })},
      {"axis", with([](Tensor& t) { t.axis_names = {"x"}; })},
      {"other axis", with([](Tensor& t) { t.axis_names = {"y"}; })},
      {"empty axis", with([](Tensor& t) { t.axis_names = {""}; })},
      {"placeholder", with([](Tensor& t) { t.data = TensorData(); })},
      {"block", with(block("q", 1, 4))},
      {"block name", with(block("p", 1, 4))},
      {"block size", with(block("q", 2, 8))},
  };
  std::map<std::string, std::string> seen;
  for (const auto& [name, value] : values) {
    const auto [at, is_new] = seen.try_emplace(digest(value), name);
    if (!is_new) FAIL_CHECK(name, " has the digest of ", at->second);
  }
  CHECK(seen.size() == values.size());
}

TEST_CASE("A set that holds the same element twice has no digest") {
  const Value twice = Value::list({Value::set({Value::integer(1), Value::integer(1)})});
  const auto file = testing::write_file(twice);
  REQUIRE_FALSE(file);
  CHECK(file.error().code == ErrorCode::kInvalidTree);
  CHECK(file.error().path == "0");
}

}  // namespace
}  // namespace espalier
