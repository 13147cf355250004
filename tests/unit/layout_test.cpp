// Trees that cannot be saved are refused with the key path of the fault.
#include "espalier/write/layout.h"

#include <string>
#include <utility>
#include <vector>

#include "support/memory_file.h"
#include <doctest/doctest.h>

#include "espalier/format/access.h"
#include "espalier/format/find_path.h"

namespace espalier {
namespace {

using testing::bytes_of;

Value in_list(Value value) {
  return Value::dict({{"a", Value::list({Value::null(), std::move(value)})}});
}

Tensor f32(std::vector<std::uint64_t> shape, std::size_t bytes) {
  Tensor tensor;
  tensor.shape = std::move(shape);
  tensor.data = TensorData::owned(std::vector<std::byte>(bytes));
  return tensor;
}

void check_refused(const Value& state, const std::string& path, const std::string& words,
                   const Limits& limits = {}, const Value& metadata = Value::dict()) {
  const auto layout = lay_out(state, metadata, limits);
  CAPTURE(words);
  REQUIRE_FALSE(layout);
  CAPTURE(layout.error().message);
  CHECK(to_string(layout.error().code) == "invalid_tree");
  CHECK(layout.error().path == path);
  CHECK(layout.error().message.find(words) != std::string::npos);
}

TEST_CASE("Equal keys of a container are refused") {
  check_refused(in_list(Value::dict({{"k", Value::null()}, {"k", Value::null()}})), "a/1/k",
                "same key twice");
  check_refused(
      in_list(Value::record({{"k", Value::null()}, {"l", Value::null()}, {"k", Value::null()}})),
      "a/1/k", "same key twice");
  check_refused(
      in_list(Value::dict({{7, Value::null()}, {"7", Value::null()}, {7, Value::null()}})), "a/1/7",
      "same key twice");
  Value large = Value::dict();
  for (std::int64_t i = 0; i < 20; ++i) large.add(i, Value::null());
  large.add("13", Value::null());
  CHECK(lay_out(large, Value::dict()));
  large.add(13, Value::null());
  check_refused(in_list(large), "a/1/13", "same key twice");
}

TEST_CASE("Records have text keys") {
  check_refused(in_list(Value::record({{"x", Value::null()}, {3, Value::null()}})), "a/1",
                "int key 3");
}

TEST_CASE("Text must be UTF-8, wherever it stands") {
  check_refused(in_list(Value::string("ab\xFF")), "a/1", "at its byte 2");
  check_refused(in_list(Value::dict({{"\xC0\x80", Value::null()}})), "a/1", "a key is not UTF-8");
  check_refused(in_list(Value::null().labelled("\xED\xA0\x80")), "a/1", "a label is not UTF-8");
  Tensor named = f32({1}, 4);
  named.axis_names = {"\x80"};
  check_refused(in_list(Value::tensor(named)), "a/1", "not UTF-8");
  Tensor opaque = f32({1}, 1);
  opaque.dtype = DType::kOpaque;
  opaque.block_name = "\xF8";
  opaque.block_elements = opaque.block_bytes = 1;
  check_refused(in_list(Value::tensor(opaque)), "a/1", "not UTF-8");
}

TEST_CASE("A tensor's data fit its dtype and shape") {
  check_refused(in_list(Value::tensor(f32({2, 3}, 23))), "a/1",
                "take 24 bytes, but its data have 23");
  check_refused(in_list(Value::tensor(f32({2, 3}, 25))), "a/1", "take 24 bytes");
  check_refused(in_list(Value::tensor(f32({}, 0))), "a/1", "take 4 bytes");
  check_refused(in_list(Value::tensor(f32({std::uint64_t{1} << 62, 4}, 0))), "a/1", "");
  Tensor narrow = f32({3}, 2);
  narrow.dtype = DType::kI4;
  check_refused(in_list(Value::tensor(narrow)), "a/1", "does not fill whole bytes");
  Tensor none = f32({1}, 4);
  none.dtype = static_cast<DType>(0);
  check_refused(in_list(Value::tensor(none)), "a/1", "dtype");
  none.dtype = static_cast<DType>(kLastDType + 1);
  check_refused(in_list(Value::tensor(none)), "a/1", "dtype");
}

TEST_CASE("Axis names and block types fit their tensor") {
  Tensor named = f32({2, 3}, 24);
  named.axis_names = {"rows"};
  check_refused(in_list(Value::tensor(named)), "a/1", "");
  named.axis_names = {"rows", "columns", "more"};
  check_refused(in_list(Value::tensor(named)), "a/1", "");
  Tensor plain = f32({2}, 8);
  plain.block_name = "q";
  check_refused(in_list(Value::tensor(plain)), "a/1", "block type");
  plain.dtype = DType::kOpaque;
  check_refused(in_list(Value::tensor(plain)), "a/1", "");
  plain.block_elements = 4;
  plain.block_bytes = 8;
  check_refused(in_list(Value::tensor(plain)), "a/1", "multiple of the 4");
}

TEST_CASE("A tensor that was moved away is refused") {
  Tensor hole = f32({1}, 0);
  hole.data = TensorData();
  for (const Tensor& tensor : {f32({1}, 4), hole}) {
    Value value = Value::tensor(tensor);
    const Value moved = std::move(value);
    CHECK_FALSE(moved.defect());
    check_refused(in_list(value), "a/1", "moved");
    check_refused(Value::null(), "(metadata)/a/1", "moved", {}, in_list(value));
  }
}

TEST_CASE("A value that lost a child is refused") {
  Value null;
  null.add("step", Value::integer(1));
  check_refused(in_list(null), "a/1", "value of kind null");
  check_refused(in_list(Value(null)), "a/1", "value of kind null");
  check_refused(Value::null(), "(metadata)/a/1", "no children", {}, in_list(null));
  Value list = Value::list();
  list.add("step", Value::integer(1));
  check_refused(in_list(list), "a/1", "on a list with a key");
  Value dict = Value::dict();
  dict.add(Value::integer(1));
  check_refused(in_list(dict), "a/1", "on a dict without a key");
}

TEST_CASE("The metadata is a dict without tensors") {
  check_refused(Value::null(), "", "must be a dict", {}, Value::list());
  check_refused(Value::null(), "(metadata)/a/1", "tensor", {}, in_list(Value::tensor(f32({1}, 4))));
  Tensor hole = f32({1}, 0);
  hole.data = TensorData();
  check_refused(Value::null(), "(metadata)/a/1", "tensor", {}, in_list(Value::tensor(hole)));
}

Value nested(int levels) {
  Value value = Value::null();
  for (int i = 0; i < levels; ++i) value = Value::list({std::move(value)});
  return value;
}

std::string path_of_zeros(int depth) {
  std::string path;
  for (int i = 0; i < depth; ++i) path += i == 0 ? "0" : "/0";
  return path;
}

TEST_CASE("A tree is as deep as readers accept, and no deeper") {
  Limits limits;
  limits.depth = 5;
  CHECK(lay_out(nested(5), Value::dict(), limits));
  check_refused(nested(6), path_of_zeros(5), "deeper than the 5", limits);
  CHECK(lay_out(nested(256), Value::dict()));
  check_refused(nested(257), path_of_zeros(256), "deeper than the 256");
  // Laid-out trees open.
  const auto file = testing::write_file(nested(256));
  REQUIRE(file);
  CHECK(testing::open_file(*file));
}

TEST_CASE("Trees of more nodes, axes and bytes than readers accept are refused") {
  Limits limits;
  limits.nodes = 5;
  CHECK(lay_out(in_list(Value::null()), Value::dict(), limits));  // with the metadata, 5
  limits.nodes = 4;
  check_refused(in_list(Value::null()), "a", "more nodes than the 4", limits);

  limits = {};
  limits.rank = 2;
  CHECK(lay_out(in_list(Value::tensor(f32({1, 1}, 4))), Value::dict(), limits));
  check_refused(in_list(Value::tensor(f32({1, 1, 1}, 4))), "a/1", "3 axes", limits);

  limits = {};
  limits.bigint_bytes = 9;
  const auto fits = BigInt::from_decimal("18446744073709551616");
  const auto large = BigInt::from_decimal("4722366482869645213696");
  CHECK(lay_out(in_list(Value::integer(*fits)), Value::dict(), limits));
  check_refused(in_list(Value::integer(*large)), "a/1", "more than the 9", limits);
}

TEST_CASE("A path longer than readers accept is refused, and named as far as it may go") {
  Limits limits;
  limits.path_bytes = 10;
  const auto tree = [](const std::string& last) {
    return Value::dict(
        {{"abc", Value::dict({{"defg", Value::list({Value::dict({{last, Value::null()}})})}})}});
  };
  CHECK(lay_out(tree("hij"), Value::dict(), limits));
  check_refused(tree("hijk"), "abc/defg/0", "longer than the 10", limits);
  check_refused(Value::dict({{std::string(20000, 'x'), Value::null()}}), "",
                "longer than the 16384");
  check_refused(Value::null(), "(metadata)/abc", "longer than the 10", limits,
                Value::dict({{"abc", Value::dict({{"defghijk", Value::null()}})}}));
}

TEST_CASE("Ties are stored once, and placeholders are their own") {
  const auto shared = std::make_shared<const Tensor>(f32({2}, 8));
  Tensor hole = f32({2}, 0);
  hole.data = TensorData();
  const auto placeholder = std::make_shared<const Tensor>(hole);
  const auto layout =
      lay_out(Value::list({Value::tensor(shared), Value::tensor(placeholder), Value::tensor(shared),
                           Value::tensor(placeholder), Value::tensor(f32({2}, 8))}),
              Value::dict());
  REQUIRE(layout);
  const Tables tables = layout->index.tables();
  CHECK(tables.tensors.size() == 4);
  CHECK(tables.chunks.size() == 2);
  CHECK(tables.shape_ends.size() == 1);
  CHECK(layout->tensors.size() == 4);
  CHECK(layout->tensors[0] == shared);
  CHECK(find_tensor_path(tables, 0) == "0");
  CHECK(find_tensor_path(tables, 3) == "4");
  CHECK(find_tensor_path(tables, 4).empty());
}

TEST_CASE("Tensors are tied whoever holds them, and however") {
  const Tensor tensor = f32({1}, 4);
  const auto check = [](const Value& tree) {
    const auto layout = lay_out(tree, Value::dict());
    REQUIRE(layout);
    const Tables tables = layout->index.tables();
    CHECK(tables.tensors.size() == 2);
    CHECK(tables.nodes[3].value == 0);
    CHECK(tables.nodes[4].value == 1);
  };
  Value once = Value::tensor(tensor);
  const Value held_by_tree = Value::list({once, once, Value::tensor(tensor)});
  once = Value();
  check(held_by_tree);
  const auto not_owned = [&] {
    return Value::tensor(std::shared_ptr<const Tensor>(&tensor, [](const Tensor*) {}));
  };
  check(Value::list({not_owned(), not_owned(), Value::tensor(tensor)}));
  const std::shared_ptr<const Tensor> held_by_nobody(std::shared_ptr<void>(), &tensor);
  check(Value::list(
      {Value::tensor(held_by_nobody), Value::tensor(held_by_nobody), Value::tensor(tensor)}));
}

TEST_CASE("Blobs are in node order, at multiples of 64, and end the file") {
  const auto layout = lay_out(Value::dict({{"z", Value::tensor(f32({25}, 100))},
                                           {"y", Value::tensor(f32({0}, 0))},
                                           {"x", Value::tensor(f32({1}, 4))}}),
                              Value::dict());
  REQUIRE(layout);
  const Tables tables = layout->index.tables();
  const std::uint64_t end = 128 + layout->index.bytes().size();
  const std::uint64_t first = (end + 63) / 64 * 64;
  REQUIRE(tables.chunks.size() == 2);
  CHECK(tables.chunks[0].offset == first);
  CHECK(tables.chunks[0].stored == 100);
  CHECK(tables.chunks[1].offset == first + 128);
  CHECK(layout->file_length == first + 132);
}

TEST_CASE("Large dicts get an order if they need one") {
  const auto orders = [](std::vector<std::int64_t> keys) {
    Value dict = Value::dict();
    for (const std::int64_t key : keys) dict.add(key, Value::null());
    const auto layout = lay_out(dict, Value::dict());
    REQUIRE(layout);
    return layout->index.tables().order.size();
  };
  CHECK(orders({8, 7, 6, 5, 4, 3, 2, 1}) == 0);
  CHECK(orders({1, 2, 3, 4, 5, 6, 7, 8, 9}) == 0);
  CHECK(orders({9, 8, 7, 6, 5, 4, 3, 2, 1}) == 9);
}

TEST_CASE("A text stands once in the pool, even if large dicts repeat it") {
  Value names = Value::dict();
  for (int i = 5000; i > 0; --i) names.add("name " + std::to_string(i), Value::null());
  const auto layout =
      lay_out(Value::list({names, Value::string("name 7"), names}), Value::dict({{"x", names}}));
  REQUIRE(layout);
  const Tables tables = layout->index.tables();
  CHECK(tables.text_ends.size() == 5001);
  CHECK(tables.order.size() == 3 * 5000);
}

TEST_CASE("A long text that many nodes name counts each time") {
  Limits limits;
  limits.text_bytes = 10'000;
  const std::string text(1000, 'x');
  Value fits = Value::list();
  for (int i = 0; i < 10; ++i) fits.add(Value::string(text));
  CHECK(lay_out(fits, Value::dict(), limits));
  Value strings = fits;
  strings.add(Value::string(text));
  Value labels = fits;
  labels.add(Value::null().labelled(text));
  Value axes = fits;
  axes.add(Value::tensor(Tensor{.dtype = DType::kU8, .shape = {0}, .axis_names = {text}}));
  for (const Value& state : {strings, labels, axes}) {
    const auto layout = lay_out(state, Value::dict(), limits);
    REQUIRE_FALSE(layout);
    CHECK(layout.error().message.find("Limits::text_bytes") != std::string::npos);
  }
}

}  // namespace
}  // namespace espalier
