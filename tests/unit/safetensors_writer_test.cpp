#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "safetensors_support.h"
#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"
#include "espalier/foreign/safetensors/carried_tree.h"
#include "espalier/foreign/safetensors/kept_header.h"
#include "espalier/foreign/safetensors/writer.h"

namespace {

using namespace espalier;
using namespace espalier::testing;

constexpr SafetensorsOptions kDropping{.unrepresentable = Unrepresentable::kDrop, .limits = {}};
constexpr SafetensorsOptions kCarrying{.unrepresentable = Unrepresentable::kMetadata, .limits = {}};

std::string header_of(const SafetensorsPlan& plan) {
  return std::string(as_text(plan.header).substr(8));
}

/// A small tensor; which one does not matter.
Value some_tensor() { return Value::tensor(tensor_of(DType::kU8, {2}, 2)); }

Error refusal(const Value& state, const Value& metadata = {}, SafetensorsOptions options = {}) {
  const auto plan = plan_safetensors(state, metadata, options);
  REQUIRE(!plan);
  CHECK(!plan.error().message.empty());
  return plan.error();
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Writes with kMetadata, opens the file, restores. The file's text outlives the values in `files`.
CarriedState through_file(const Value& state, const Value& metadata,
                          std::vector<std::string>& files) {
  const auto plan = plan_safetensors(state, metadata, kCarrying);
  REQUIRE_MESSAGE(plan, plan.error().describe());
  files.push_back(file_of(*plan));
  const auto checkpoint = open_safetensors(files.back());
  REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
  const Value flat = state_of(*checkpoint, files.back());
  Value flat_metadata = to_value(checkpoint->metadata());
  const auto restored = restore_carried(flat, flat_metadata);
  REQUIRE_MESSAGE(restored, restored.error().describe());
  CHECK(restored->has_value() == plan->carries_tree);
  if (!*restored) return {flat, flat_metadata};
  return **restored;
}

/// One of everything that safetensors lacks.
Value rich_state() {
  const auto shared = std::make_shared<const Tensor>(tensor_of(DType::kF32, {3}, 12));
  Tensor named = tensor_of(DType::kF16, {2, 2}, 8);
  named.axis_names = {"batch", ""};
  Tensor opaque = tensor_of(DType::kOpaque, {2, 64}, 72);
  opaque.block_name = "q4_0";
  opaque.block_elements = 32;
  opaque.block_bytes = 18;
  Tensor placeholder;
  placeholder.dtype = DType::kOpaque;
  placeholder.shape = {32};
  placeholder.block_name = "q4_0";
  placeholder.block_elements = 32;
  placeholder.block_bytes = 18;
  placeholder.axis_names = {"n\"\n"};
  const double nan = std::bit_cast<double>(std::uint64_t{0xFFF8000000001234});
  return Value::dict(
             {{"z", Value::tensor(shared)},
              {"nothing", Value::null()},
              {"yes", Value::boolean(true)},
              {"no", Value::boolean(false)},
              {"step", Value::integer(-3)},
              {"lowest", Value::integer(std::numeric_limits<std::int64_t>::min())},
              {"big", Value::integer(*BigInt::from_decimal("-123456789012345678901234567890"))},
              {"pi", Value::real(3.25)},
              {"minus zero", Value::real(-0.0)},
              {"nan", Value::real(nan)},
              {"i", Value::complex({nan, -0.0})},
              {"text", Value::string("\"\\\n\x01 é😀")},
              {"bytes", Value::bytes({std::byte{0}, std::byte{0xFF}, std::byte{0x1A}})},
              {"", Value::dict(
                       {{7, Value::dict({{"7.x", some_tensor()}})}, {-1, Value::tensor(shared)}})},
              {"list", Value::list({some_tensor(), Value::list(), Value::tuple(), Value::set(),
                                    Value::dict(), Value::record()})},
              {"size", Value::tuple({Value::integer(1)}).labelled("torch.Size")},
              {"labels",
               Value::list({Value::null().labelled(""), Value::boolean(true).labelled("b"),
                            Value::integer(5).labelled("numpy.int64"),
                            Value::string("s").labelled("S"), Value::real(1).labelled("f"),
                            Value::tensor(shared).labelled("torch.nn.Parameter")})},
              {"set", Value::set({Value::integer(2), Value::integer(1)})},
              {"record", Value::record({{"b", Value::integer(1)}, {"a", some_tensor()}})
                             .labelled("optax.ScaleByAdamState")},
              {"c128", Value::tensor(tensor_of(DType::kC128, {1, 2}, 32))},
              {"i4", Value::tensor(tensor_of(DType::kI4, {3, 2}, 3))},
              {"no bytes", Value::tensor(tensor_of(DType::kU2, {0, 5}, 0))},
              {"overflow", Value::tensor(tensor_of(DType::kF32, {1ull << 63, 4, 0}, 0))},
              {"named", Value::tensor(std::move(named))},
              {"opaque", Value::tensor(std::move(opaque))},
              {"later", Value::tensor(std::move(placeholder))}})
      .labelled("collections.OrderedDict");
}

}  // namespace

TEST_CASE("safetensors writer: files of the public package come back byte for byte") {
  for (const char* name : {"dtypes", "empty", "empty_metadata", "metadata_only", "metadata_many",
                           "shapes", "names", "model"}) {
    CAPTURE(std::string(name));
    const std::string file = safetensors_example(name);
    const auto checkpoint = open_safetensors(file);
    REQUIRE(checkpoint);
    const Value state = state_of(*checkpoint, file);
    const Value metadata = to_value(checkpoint->metadata());
    for (const SafetensorsOptions& options : {SafetensorsOptions{}, kDropping, kCarrying}) {
      const auto plan = plan_safetensors(state, metadata, options);
      REQUIRE_MESSAGE(plan, plan.error().describe());
      CHECK(!plan->carries_tree);
      CHECK(plan->dropped.empty());
      CHECK(file_of(*plan) == file);
    }
    const auto nested = open_safetensors(file, {}, ~std::uint64_t{0}, true);
    REQUIRE(nested);
    const auto plan = plan_safetensors(state_of(*nested, file), metadata);
    REQUIRE_MESSAGE(plan, plan.error().describe());
    CHECK(file_of(*plan) == file);
  }
}

TEST_CASE("safetensors writer: the header") {
  Value state = Value::dict();
  state.add("b", Value::tensor(tensor_of(DType::kU8, {3}, 3)));
  state.add("a", Value::dict({{"\"\x01/", Value::tensor(tensor_of(DType::kF64, {}, 8))},
                              {"x", Value::tensor(tensor_of(DType::kU8, {0, 7}, 0))}}));
  const Value metadata = Value::dict({{"z", Value::string("1")}, {"a", Value::string("\n")}});
  const auto plan = plan_safetensors(state, metadata);
  REQUIRE(plan);
  const std::string expected =
      R"({"__metadata__":{"z":"1","a":"\n"},"a.\"\u0001/":{"dtype":"F64","shape":[],)"
      R"("data_offsets":[0,8]},"a.x":{"dtype":"U8","shape":[0,7],"data_offsets":[8,8]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  const std::string header = header_of(*plan);
  CHECK(header.substr(0, expected.size()) == expected);
  CHECK(header.find_first_not_of(' ', expected.size()) == std::string::npos);
  CHECK(header.size() % 8 == 0);
  CHECK(header.size() - expected.size() < 8);
  CHECK(load_le<std::uint64_t>(plan->header.data()) == header.size());
  REQUIRE(plan->tensors.size() == 3);
  CHECK(plan->tensors[0].name == "a.\"\x01/");
  CHECK(plan->tensors[2].extent == Extent{0, 8 + header.size() + 8, 3});
  CHECK(plan->file_length == 8 + header.size() + 11);

  CHECK(header_of(*plan_safetensors(Value::dict(), {})) == "{}      ");
}

TEST_CASE("safetensors writer: tensors by descending dtype, then by name") {
  // The reference library's own order of dtypes, widest last.
  const std::vector<DType> order = {
      DType::kBool,       DType::kF4E2M1FN, DType::kF6E2M3FN, DType::kF6E3M2FN,  DType::kU8,
      DType::kI8,         DType::kF8E5M2,   DType::kF8E4M3FN, DType::kF8E8M0FNU, DType::kF8E4M3FNUZ,
      DType::kF8E5M2FNUZ, DType::kI16,      DType::kU16,      DType::kF16,       DType::kBF16,
      DType::kI32,        DType::kU32,      DType::kF32,      DType::kC64,       DType::kF64,
      DType::kI64,        DType::kU64};
  Value state = Value::dict();
  for (const DType dtype : order) {
    for (const char* name : {"b", "a"}) {
      state.add(std::string(name) + std::string(dtype_name(dtype)),
                Value::tensor(tensor_of(dtype, {8}, dtype_bits(dtype))));
    }
  }
  const auto plan = plan_safetensors(state, {});
  REQUIRE(plan);
  REQUIRE(plan->tensors.size() == 2 * order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const DType dtype = order[order.size() - 1 - i];
    CHECK(plan->tensors[2 * i].name == "a" + std::string(dtype_name(dtype)));
    CHECK(plan->tensors[2 * i + 1].name == "b" + std::string(dtype_name(dtype)));
  }
}

TEST_CASE("safetensors writer: names that collide") {
  Error error =
      refusal(Value::dict({{"a", Value::dict({{"b", some_tensor()}})}, {"a.b", some_tensor()}}));
  CHECK(error.code == ErrorCode::kNameCollision);
  CHECK(contains(error.message, "a/b and a.b would both"));
  error = refusal(Value::dict({{1, some_tensor()}, {"1", some_tensor()}}), {}, kCarrying);
  CHECK(error.code == ErrorCode::kNameCollision);
  CHECK(contains(error.message, "1 and ~21 would both"));
  error = refusal(Value::dict({{"__metadata__", some_tensor()}}), {}, kDropping);
  CHECK(error.code == ErrorCode::kNameCollision);
  CHECK(error.path == "__metadata__");
  const Value taken = Value::dict({{kCarriedTreeKey, Value::string("")}});
  CHECK(refusal(Value::dict({{"n", Value::null()}}), taken, kCarrying).code ==
        ErrorCode::kNameCollision);
  // It is a text like any other if nothing has to be carried.
  CHECK(plan_safetensors(Value::dict({{"n", some_tensor()}}), taken, kCarrying));
}

TEST_CASE("safetensors writer: what does not fit is an error") {
  const auto lost = [](Value value) {
    const Error error = refusal(Value::dict({{"ok", some_tensor()}, {"k", std::move(value)}}));
    CHECK(error.code == ErrorCode::kUnrepresentable);
    CHECK(error.path.starts_with("k"));
    CHECK(contains(error.message, "Unrepresentable::kMetadata"));
    return error.message;
  };
  CHECK(contains(lost(Value::null()), "hold k (a null);"));
  CHECK(contains(lost(Value::boolean(true)), "k (a bool)"));
  CHECK(contains(lost(Value::integer(1)), "k (an int64)"));
  CHECK(contains(lost(Value::integer(*BigInt::from_decimal("99999999999999999999"))), "a bigint"));
  CHECK(contains(lost(Value::real(1)), "a float64"));
  CHECK(contains(lost(Value::complex({})), "a complex128"));
  CHECK(contains(lost(Value::string("")), "a string"));
  CHECK(contains(lost(Value::bytes({})), "a bytes"));
  CHECK(contains(lost(Value::dict()), "an empty dict"));
  CHECK(contains(lost(Value::list({some_tensor()})), "k (a list)"));
  CHECK(contains(lost(Value::tuple()), "k (a tuple)"));
  CHECK(contains(lost(Value::set()), "k (a set)"));
  CHECK(contains(lost(Value::record()), "k (a record)"));
  CHECK(contains(lost(Value::dict({{0, some_tensor()}})), "k (int keys become text)"));
  CHECK(contains(lost(some_tensor().labelled("")), "k (a label)"));
  CHECK(contains(lost(Value::tensor(Tensor{})), "k (a placeholder)"));
  CHECK(contains(lost(Value::tensor(tensor_of(DType::kC128, {}, 16))), "k (dtype c128)"));
  CHECK(contains(lost(Value::tensor(tensor_of(DType::kU4, {2}, 1))), "k (dtype u4)"));
  CHECK(contains(lost(Value::tensor(tensor_of(DType::kU8, {1ull << 63, 2, 0}, 0))), "overflows"));
  Tensor named = tensor_of(DType::kU8, {1}, 1);
  named.axis_names = {"x"};
  CHECK(contains(lost(Value::tensor(std::move(named))), "k (axis names)"));
  const Value tied = some_tensor();
  CHECK(contains(lost(Value::dict({{"a", tied}, {"b", tied}})), "k/b (a tied tensor)"));

  CHECK(contains(refusal(some_tensor()).message, "the root (a tensor as the root)"));
  CHECK(contains(refusal(Value::list()).message, "the root (a list)"));
  const auto metadata = [](Value value) {
    return refusal(Value::dict(), Value::dict({{"m", std::move(value)}})).message;
  };
  CHECK(contains(metadata(Value::integer(1)), "(metadata)/m (int64)"));
  CHECK(contains(metadata(Value::string("s").labelled("l")), "(metadata)/m (a label)"));
  CHECK(contains(refusal(Value::dict(), Value::dict({{1, Value::string("")}})).message,
                 "(metadata)/1 (an int key)"));
  CHECK(contains(refusal(Value::dict(), Value::dict().labelled("L")).message,
                 "(metadata) (a label)"));

  Value many = Value::dict();
  for (int i = 0; i < 20; ++i) many.add("k" + std::to_string(i), Value::null());
  CHECK(contains(refusal(many).message, "k7 (a null) and 12 more; carry"));
}

TEST_CASE("safetensors writer: a tensor that was moved away is refused") {
  for (Value value : {some_tensor(), Value::tensor(Tensor{.shape = {1}})}) {
    const Value moved = std::move(value);
    const Error error = refusal(Value::dict({{"k", value}}));
    CHECK(error.code == ErrorCode::kInvalidTree);
    CHECK(error.path == "k");
  }
}

TEST_CASE("safetensors writer: trees that nothing can hold") {
  for (const SafetensorsOptions& options : {SafetensorsOptions{}, kDropping, kCarrying}) {
    const auto code = [&](Value value, const Value& metadata = {}) {
      return refusal(Value::dict({{"k", std::move(value)}}), metadata, options).code;
    };
    CHECK(code(Value::tensor(tensor_of(DType::kF32, {2}, 7))) == ErrorCode::kInvalidTree);
    CHECK(code(Value::tensor(tensor_of(DType::kI4, {3}, 2))) == ErrorCode::kInvalidTree);
    CHECK(code(Value::dict({{"\xFF", some_tensor()}})) == ErrorCode::kInvalidTree);
    CHECK(code(some_tensor(), Value::list()) == ErrorCode::kInvalidTree);
    CHECK(code(some_tensor(), Value::dict({{"a", some_tensor()}})) == ErrorCode::kInvalidTree);
    CHECK(code(some_tensor(), Value::dict({{"a", Value::list({Value::tensor(Tensor{})})}})) ==
          ErrorCode::kInvalidTree);
    CHECK(code(some_tensor(), Value::dict({{"a", Value::string("\xFF")}})) ==
          ErrorCode::kInvalidTree);
    CHECK(code(some_tensor(), Value::dict({{"a", Value::string("")}, {"a", Value::string("")}})) ==
          ErrorCode::kInvalidTree);
    Value deep = some_tensor();
    for (int i = 0; i < 256; ++i) deep = Value::dict({{"k", std::move(deep)}});
    CHECK(code(std::move(deep)) == ErrorCode::kLimitExceeded);
    Tensor huge;
    huge.dtype = DType::kU8;
    huge.shape = {(1ull << 63) - 1};
    huge.data = TensorData::produced([](std::uint64_t, MutableByteSpan) { return Result<void>{}; });
    const Value half = Value::tensor(huge);
    CHECK(code(Value::dict({{"a", half}, {"b", Value::tensor(std::move(huge))}})) ==
          ErrorCode::kInvalidTree);
    // A header that every reader would refuse.
    CHECK(code(some_tensor(), Value::dict({{"a", Value::string(std::string(100'000'000, 'x'))}})) ==
          ErrorCode::kUnrepresentable);
  }
  CHECK(refusal(Value::dict({{"k", Value::string("\xFF")}}), {}, kCarrying).code ==
        ErrorCode::kInvalidTree);
}

TEST_CASE("safetensors writer: ties cannot multiply long names") {
  // Gigabytes, if all of it were made before it is refused.
  Tensor named = tensor_of(DType::kU8, {1}, 1);
  named.axis_names = {std::string(1'000'000, 'a')};
  const Value tensor = Value::tensor(std::move(named));
  const Value ties = Value::list(std::vector<Value>(20'000, tensor));
  CHECK(contains(refusal(ties, {}, kCarrying).message, "the tree in the metadata would have"));
  const Value below = Value::dict({{std::string(10'000, 'k'), ties}});
  for (const SafetensorsOptions& options : {SafetensorsOptions{}, kDropping, kCarrying}) {
    const Error error = refusal(below, {}, options);
    CHECK(error.code == ErrorCode::kUnrepresentable);
    CHECK(contains(error.message, "names of the tensors"));
  }
}

TEST_CASE("safetensors writer: what does not fit is dropped") {
  const auto plan = plan_safetensors(rich_state(), Value::dict({{"n", Value::null()}}), kDropping);
  REQUIRE_MESSAGE(plan, plan.error().describe());
  CHECK(!plan->carries_tree);
  CHECK(plan->dropped.count() > 30);
  CHECK(plan->dropped.first().size() == Losses::kKept);
  const std::string file = file_of(*plan);
  const auto checkpoint = open_safetensors(file);
  REQUIRE(checkpoint);
  const Value state = state_of(*checkpoint, file);
  std::vector<std::string> names;
  for (const Key& key : state.keys()) names.emplace_back(key.view().text);
  // Tied tensors occur once for each node.
  CHECK(names ==
        std::vector<std::string>{".-1", "labels.5", "z", "named", ".7.7.x", "list.0", "record.a"});
  CHECK(checkpoint->metadata().size() == 0);
}

TEST_CASE("safetensors writer: what does not fit is carried, exactly") {
  std::vector<std::string> files;
  files.reserve(16);
  const Value state = rich_state();
  const Value metadata =
      Value::dict({{"format", Value::string("pt")}, {2, Value::list({Value::real(0.5)})}})
          .labelled("meta");
  CarriedState restored = through_file(state, metadata, files);
  CHECK(same(restored.state, state));
  CHECK(same(restored.metadata, metadata));
  // Texts stay readable for programs that know nothing of carried trees.
  CHECK(
      contains(files.back(), R"({"__metadata__":{"format":"pt","espalier.tree":"{\"version\":1,)"));
  // Once, although three nodes name it; other dtypes as bytes.
  CHECK(!contains(files.back(), R"("labels.5":)"));
  CHECK(contains(files.back(), R"("c128":{"dtype":"U8","shape":[32],)"));

  // Metadata of texts stays as it is.
  const Value texts = Value::dict({{"b", Value::string("1")}, {"a", Value::string("2")}});
  restored = through_file(state, texts, files);
  CHECK(same(restored.metadata, texts));
  CHECK(!contains(files.back(), R"(,\"metadata\":)"));

  // Key order alone is worth carrying; the order that the file has is not.
  const Value unordered = Value::dict({{"b", some_tensor()}, {"a", some_tensor()}});
  CHECK(same(through_file(unordered, Value::dict(), files).state, unordered));
  CHECK(contains(files.back(), kCarriedTreeKey));
  const Value ordered = Value::dict({{"a", some_tensor()}, {"b", some_tensor()}});
  CHECK(same(through_file(ordered, Value::dict(), files).state, ordered));
  CHECK(!contains(files.back(), kCarriedTreeKey));
  const Value nested = Value::dict({{"a", ordered}});
  CHECK(same(through_file(nested, Value::dict(), files).state, nested));
  CHECK(contains(files.back(), kCarriedTreeKey));
  const Value root = some_tensor();
  CHECK(same(through_file(root, Value::dict(), files).state, root));
  const Value null_root = Value::null();
  CHECK(same(through_file(null_root, Value::dict(), files).state, null_root));
}

TEST_CASE("safetensors writer: the carried tree's text") {
  const Value state = Value::dict(
      {{"w", Value::tensor(tensor_of(DType::kI4, {2, 3}, 3))},
       {0, Value::tuple({Value::null(), Value::integer(-7), Value::real(1.5)}).labelled("L")}});
  const auto plan = plan_safetensors(state, {}, kCarrying);
  REQUIRE(plan);
  const auto checkpoint = open_safetensors(file_of(*plan));
  CHECK(checkpoint->metadata().find(KeyView::of(kCarriedTreeKey))->as_string() ==
        R"({"version":1,"state":{"kind":"dict","items":[)"
        R"(["w",{"kind":"tensor","name":"w","dtype":"i4","shape":[2,3]}],)"
        R"([0,{"kind":"tuple","label":"L","items":[null,-7,)"
        R"({"kind":"float64","value":"3ff8000000000000"}]}]]}})");
}

TEST_CASE("safetensors writer: random trees are carried exactly") {
  std::mt19937 random(11);
  std::vector<std::string> files;
  files.reserve(300);
  std::vector<Value> shared;
  const std::function<Value(int)> make = [&](int depth) -> Value {
    Value value;
    switch (random() % (depth > 3 ? 9 : 14)) {
      case 0:
        value = Value::null();
        break;
      case 1:
        value = Value::boolean(random() % 2 == 0);
        break;
      case 2:
        value = Value::integer(static_cast<std::int64_t>(random()) - (1ll << 31));
        break;
      case 3:
        value = Value::real(std::bit_cast<double>(std::uint64_t{random()} << 32 | random()));
        break;
      case 4:
        value = Value::string(std::string(random() % 4, static_cast<char>(random() % 128)));
        break;
      case 5:
        value = Value::bytes(std::vector<std::byte>(random() % 9, std::byte{0xA5}));
        break;
      case 6:
        shared.push_back(Value::tensor(
            tensor_of(random() % 2 == 0 ? DType::kF32 : DType::kC128, {random() % 3}, 0)));
        {
          const auto& tensor = *shared.back().as_tensor();
          shared.back() = Value::tensor(tensor_of(tensor.dtype, tensor.shape,
                                                  tensor.shape[0] * dtype_bits(tensor.dtype) / 8));
        }
        value = shared.back();
        break;
      case 7:
        value = shared.empty() ? Value::null() : shared[random() % shared.size()];
        break;
      case 8: {
        Tensor placeholder;
        placeholder.shape = {random() % 5, 2};
        value = Value::tensor(std::move(placeholder));
        break;
      }
      default: {
        const auto kind = static_cast<Kind>(static_cast<int>(Kind::kDict) + random() % 5);
        value = kind == Kind::kDict    ? Value::dict()
                : kind == Kind::kList  ? Value::list()
                : kind == Kind::kTuple ? Value::tuple()
                : kind == Kind::kSet   ? Value::set()
                                       : Value::record();
        for (std::uint32_t i = 0; i < random() % 5; ++i) {
          if (!has_keys(kind)) {
            value.add(make(depth + 1));
          } else if (kind == Kind::kDict && random() % 2 == 0) {
            value.add(static_cast<std::int64_t>(100 + i), make(depth + 1));
          } else {
            value.add("key" + std::to_string(9 - i), make(depth + 1));
          }
        }
      }
    }
    if (random() % 8 == 0) value = std::move(value).labelled("label" + std::to_string(depth));
    return value;
  };
  for (int round = 0; round < 300; ++round) {
    shared.clear();
    Value state = Value::dict();
    for (int i = 0; i < 4; ++i) state.add("k" + std::to_string(i), make(0));
    CHECK(same(through_file(state, Value::dict(), files).state, state));
  }
}

TEST_CASE("safetensors: carried trees that are wrong") {
  const Value flat = Value::dict({{"t", Value::tensor(tensor_of(DType::kU8, {4}, 4))}});
  const auto restore = [&](std::string text, Limits limits = {}) {
    return restore_carried(flat, Value::dict({{kCarriedTreeKey, Value::string(std::move(text))}}),
                           limits);
  };
  const auto state = [&](const std::string& node) {
    return restore(R"({"version":1,"state":)" + node + "}");
  };
  const std::string t = R"({"kind":"tensor","name":"t"})";
  REQUIRE(state(t));
  REQUIRE(state(R"({"kind":"list","items":[)" + t + "," + t + "]}"));
  REQUIRE(state(R"({"kind":"tensor","name":"t","dtype":"i4","shape":[2,4],"axes":["",""]})"));
  for (const char* block : {R"(["a",4294967295,1])", R"(["a",1,4294967295])"}) {
    REQUIRE(state(R"({"kind":"list","items":[)" + t +
                  R"(,{"kind":"placeholder","dtype":"opaque","shape":[0],"block":)" + block +
                  "}]}"));
  }

  const std::vector<std::string> wrong = {
      "",
      "{",
      "[]",
      "1",
      R"({"state":)" + t + "}",
      R"({"version":1})",
      R"({"version":"1","state":)" + t + "}",
      R"({"version":1,"state":)" + t + R"(,"x":1})",
      R"({"version":1,"state":)" + t + R"(,"metadata":1})",
      R"({"version":1,"state":)" + t + R"(,"metadata":{"kind":"dict","items":[["t",)" + t + "]]}}",
      R"({"version":1,"state":)" + t + R"(,"state":)" + t + "}",
      R"({"version":1,"state":)" + t + "} x",
      R"({"version":1,"state":)" + t + "}" + std::string("\0x", 2)};
  for (const std::string& text : wrong) {
    CAPTURE(text);
    const auto restored = restore(text);
    REQUIRE(!restored);
    CHECK(restored.error().code == ErrorCode::kSafetensorsInvalid);
  }
  CHECK(restore(R"({"version":2,"state":)" + t + "}").error().code ==
        ErrorCode::kUnsupportedVersion);

  const auto with = [&](const std::string& node) {
    return R"({"kind":"list","items":[)" + t + "," + node + "]}";
  };
  for (const char* node :
       {"1.5", "-1e3", "18446744073709551615", "{}", "[]", R"({"kind":"thing"})", R"({"kind":7})",
        R"("\udc00")", R"({"kind":"null","value":null})", R"({"kind":"bool"})",
        R"({"kind":"bool","value":1})", R"({"kind":"int64","value":true})",
        R"({"kind":"int64","value":"1"})", R"({"kind":"string","value":1})",
        R"({"kind":"bigint","value":"5"})", R"({"kind":"bigint","value":"0x5"})",
        R"({"kind":"bigint","value":99999999999999999999})", R"({"kind":"float64","value":"3ff"})",
        R"({"kind":"float64","value":"3FF0000000000000"})",
        R"({"kind":"float64","value":"3ff00000000000000"})", R"({"kind":"float64","value":1.5})",
        R"({"kind":"complex128","value":"3ff0000000000000"})", R"({"kind":"bytes","value":"0"})",
        R"({"kind":"bytes","value":"0g"})", R"({"kind":"bytes","value":"g0"})",
        R"({"kind":"bytes","value":"00","x":1})", R"({"kind":"list"})",
        R"({"kind":"list","items":{}})", R"({"kind":"list","items":[],"label":1})",
        R"({"kind":"list","items":[],"items":[]})", R"({"kind":"dict","items":[1]})",
        R"({"kind":"dict","items":[["a"]]})", R"({"kind":"dict","items":[["a",1,2]]})",
        R"({"kind":"dict","items":[{"a":1,"b":2}]})", R"({"kind":"dict","items":[[1.5,1]]})",
        R"({"kind":"dict","items":[[null,1]]})", R"({"kind":"record","items":[[1,1]]})",
        R"({"kind":"record","items":[["a",1],["b",1],["a",1]]})",
        R"({"kind":"dict","items":[[1,1],[2,1],[1,1]]})", R"({"kind":"tensor"})",
        R"({"kind":"tensor","name":"s"})", R"({"kind":"tensor","name":"u"})",
        R"({"kind":"tensor","name":1})", R"({"kind":"tensor","name":"t","shape":[4]})",
        R"({"kind":"placeholder"})", R"({"kind":"placeholder","dtype":"f32"})",
        R"({"kind":"placeholder","dtype":"f32","shape":4})",
        R"({"kind":"placeholder","dtype":"f32","shape":{}})",
        R"({"kind":"placeholder","dtype":"f99","shape":[]})",
        R"({"kind":"placeholder","dtype":"f32","shape":[-1]})",
        R"({"kind":"placeholder","dtype":"f32","shape":[1.0]})",
        R"({"kind":"placeholder","dtype":"f32","shape":[18446744073709551615]})",
        R"({"kind":"placeholder","dtype":"f32","shape":[1],"block":["a",1,1]})",
        R"({"kind":"placeholder","dtype":"f32","shape":[1],"axes":[]})",
        R"({"kind":"placeholder","dtype":"f32","shape":[1],"axes":[1]})",
        R"({"kind":"placeholder","dtype":"f32","shape":[1],"axes":{"a":"b"}})",
        R"({"kind":"placeholder","dtype":"opaque","shape":[1]})",
        R"({"kind":"placeholder","dtype":"opaque","shape":[1],"block":["a",0,1]})",
        R"({"kind":"placeholder","dtype":"opaque","shape":[1],"block":["a",-1,1]})",
        R"({"kind":"placeholder","dtype":"opaque","shape":[1],"block":["a",1,-1]})",
        R"({"kind":"placeholder","dtype":"opaque","shape":[1],"block":["a",1]})",
        R"({"kind":"placeholder","dtype":"opaque","shape":[1],"block":{"a":1,"b":1,"c":1}})",
        // 1 in 32 bits.
        R"({"kind":"placeholder","dtype":"opaque","shape":[1],"block":["a",4294967297,1]})",
        R"({"kind":"placeholder","dtype":"opaque","shape":[1],"block":["a",1,4294967297]})"}) {
    CAPTURE(std::string(node));
    const auto restored = state(with(node));
    REQUIRE(!restored);
    CHECK(restored.error().code == ErrorCode::kSafetensorsInvalid);
  }
  // Types that do not fit the bytes; a tensor that no node names.
  for (const char* type : {R"("dtype":"u8","shape":[5])", R"("dtype":"f32","shape":[])",
                           R"("dtype":"i4","shape":[4])", R"("dtype":"i4","shape":[3])"}) {
    CAPTURE(std::string(type));
    const bool fits = std::string_view(type) == R"("dtype":"f32","shape":[])";
    CHECK(state(R"({"kind":"tensor","name":"t",)" + std::string(type) + "}").has_value() == fits);
  }
  // The descriptions of a tensor must agree wherever it is mentioned; their wording may differ.
  const auto both = [&](const char* first, const char* second) {
    const auto tensor = [](const char* more) {
      return R"({"kind":"tensor","name":"t")" + std::string(more) + "}";
    };
    return state(R"({"kind":"list","items":[)" + tensor(first) + "," + tensor(second) + "]}")
        .has_value();
  };
  CHECK(both(R"(,"label":"a")", R"(,"label":"b")"));
  CHECK(both(R"(,"dtype":"i4","shape":[8])", R"(,"dtype":"i4","shape":[8])"));
  CHECK(both("", R"(,"dtype":"u8","shape":[4])"));
  CHECK(!both(R"(,"dtype":"i4","shape":[8])", R"(,"dtype":"u4","shape":[8])"));
  CHECK(!both("", R"(,"dtype":"i4","shape":[8])"));
  CHECK(!both(R"(,"axes":["a"])", ""));
  // A key and an int key that look the same differ.
  CHECK(state(with(R"({"kind":"dict","items":[[1,1],["1",1]]})")));
  CHECK(!state("null"));
  // The state beside it must be flat and have names.
  const Value whole =
      Value::dict({{kCarriedTreeKey, Value::string(R"({"version":1,"state":)" + t + "}")}});
  REQUIRE(restore_carried(flat, whole));
  for (const Value& other : {Value::list({flat.children()[0]}), flat.children()[0],
                             Value::dict({{"t", flat.children()[0]}, {1, flat.children()[0]}}),
                             Value::dict({{"t", Value::list()}})}) {
    CHECK(restore_carried(other, whole).error().code == ErrorCode::kSafetensorsInvalid);
  }
  const auto stands_beside = [](const Value& other, const std::string& node) {
    const Value carried = Value::string(R"({"version":1,"state":)" + node + "}");
    return restore_carried(other, Value::dict({{kCarriedTreeKey, carried}})).has_value();
  };
  // An int key is no name, not even the empty one.
  const char* nameless = R"({"kind":"tensor","name":""})";
  CHECK(stands_beside(Value::dict({{"", flat.children()[0]}}), nameless));
  CHECK(!stands_beside(Value::dict({{1, flat.children()[0]}}), nameless));
  // Only bytes are given a type.
  const char* typed = R"({"kind":"tensor","name":"t","dtype":"f32","shape":[]})";
  CHECK(stands_beside(flat, typed));
  for (const DType dtype : {DType::kI8, DType::kF32}) {
    CHECK(!stands_beside(Value::dict({{"t", Value::tensor(tensor_of(dtype, {4}, 4))}}), typed));
  }
  CHECK(!*restore_carried(flat, Value::dict()));
  CHECK(!*restore_carried(flat, Value::dict({{kCarriedTreeKey, Value::integer(1)}})));

  Limits limits;
  limits.depth = 2;
  limits.nodes = 4;
  limits.rank = 1;
  limits.bigint_bytes = 16;
  const auto code = [&](const std::string& node) {
    const auto restored = restore(R"({"version":1,"state":)" + with(node) + "}", limits);
    return restored ? ErrorCode{} : restored.error().code;
  };
  CHECK(code(R"({"kind":"list","items":[1]})") == ErrorCode{});
  CHECK(code(R"({"kind":"list","items":[{"kind":"list","items":[]}]})") ==
        ErrorCode::kLimitExceeded);
  CHECK(code(R"({"kind":"list","items":[1,2]})") == ErrorCode::kLimitExceeded);
  CHECK(code(R"({"kind":"placeholder","dtype":"u8","shape":[1]})") == ErrorCode{});
  CHECK(code(R"({"kind":"placeholder","dtype":"u8","shape":[1,1]})") == ErrorCode::kLimitExceeded);
  CHECK(code(R"({"kind":"bigint","value":")" + std::string(60, '9') + "\"}") ==
        ErrorCode::kLimitExceeded);
  CHECK(!state(std::string(1'000'000, '[')));
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += R"({"kind":"list","items":[)";
  deep += t;
  for (int i = 0; i < 100'000; ++i) deep += "]}";
  CHECK(state(deep).error().code == ErrorCode::kLimitExceeded);
}

namespace {

// A header that no writer of ours makes: another order of tensors, fields and members, spaces,
// escapes, an odd length, trailing spaces.
const std::string kOddHeader =
    R"({ "b" : {"shape":[2], "data_offsets":[4,6],"dtype":"U8"},)"
    "\n\t"
    R"("\u0061":{"dtype":"I16","shape":[2],"data_offsets":[0,4]},"__metadata__":{"k":"\/"} }   )";

struct Kept {
  std::string file;
  Value state;
  Value metadata;
};

// The state of a file with this header, with the header kept.
Kept kept(const std::string& header, std::size_t bytes = 6) {
  Kept made;
  made.file = safetensors_file(header, bytes_of(bytes));
  const auto checkpoint = open_safetensors(made.file);
  REQUIRE_MESSAGE(checkpoint, checkpoint.error().describe());
  made.state = state_of(*checkpoint, made.file);
  made.metadata = to_value(checkpoint->metadata());
  keep_header(made.metadata, header);
  return made;
}

std::string written(const Value& state, const Value& metadata, SafetensorsOptions options = {}) {
  const auto plan = plan_safetensors(state, metadata, options);
  REQUIRE_MESSAGE(plan, plan.error().describe());
  return file_of(*plan);
}

}  // namespace

TEST_CASE("safetensors: a kept header gives the same bytes back") {
  for (const std::string& header :
       {kOddHeader, std::string("{}   "), std::string(R"({"__metadata__":{}})"),
        std::string(R"({"z":{"dtype":"U8","shape":[0],"data_offsets":[6,6]},)"
                    R"("y":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},)"
                    R"("x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})")}) {
    const Kept file = kept(header, header.find("dtype") == std::string::npos ? 0 : 6);
    CHECK(written(file.state, file.metadata) == file.file);
    CHECK(written(file.state, file.metadata, kCarrying) == file.file);
    CHECK(written(file.state, file.metadata, kDropping) == file.file);
    Value forgotten = file.metadata;
    forget_header(forgotten);
    CHECK(written(file.state, forgotten) != file.file);
  }
}

TEST_CASE("safetensors: a kept header is left out when it is not the state's") {
  const Kept file = kept(kOddHeader);
  Value plain = file.metadata;
  forget_header(plain);
  const auto check = [&](const Value& state, const Value& metadata) {
    Value without = metadata;
    forget_header(without);
    CHECK(written(state, metadata) == written(state, without));
  };
  Value fewer = file.state;
  REQUIRE(fewer.erase("b"));
  check(fewer, file.metadata);
  Value more = file.state;
  more.add("c", some_tensor());
  check(more, file.metadata);
  Value other_shape = file.state;
  REQUIRE(other_shape.set("b", Value::tensor(tensor_of(DType::kU8, {2, 1}, 2))));
  check(other_shape, file.metadata);
  Value other_dtype = file.state;
  REQUIRE(other_dtype.set("b", Value::tensor(tensor_of(DType::kI8, {2}, 2))));
  check(other_dtype, file.metadata);
  Value other_metadata = file.metadata;
  other_metadata.add("l", Value::string(""));
  check(file.state, other_metadata);
  // Hostile: no JSON, gaps, overlaps, a tensor twice, offsets that wrap.
  for (
      const char* header :
      {"", "{", "[]", "{}",
       R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[5,7]},"a":{"dtype":"I16","shape":[2],"data_offsets":[0,4]},"__metadata__":{"k":"/"}})",
       R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]},"a":{"dtype":"I16","shape":[2],"data_offsets":[0,4]},"__metadata__":{"k":"/"}})",
       R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},"__metadata__":{"k":"/"}})",
       R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[18446744073709551614,0]},"a":{"dtype":"I16","shape":[2],"data_offsets":[0,4]},"__metadata__":{"k":"/"}})"}) {
    Value metadata = plain;
    keep_header(metadata, header);
    check(file.state, metadata);
  }
}

TEST_CASE("safetensors: a kept header with a carried tree") {
  const Value state = Value::dict({{"t", some_tensor()}, {"step", Value::integer(3)}});
  const auto plan = plan_safetensors(state, Value::dict({{"k", Value::string("v")}}), kCarrying);
  REQUIRE(plan);
  // The same with spaces in the header, so that its own writer's header is another.
  const std::string spaced = "{ " + header_of(*plan).substr(1);
  const std::string file = safetensors_file(spaced, bytes_of(2));
  const auto checkpoint = open_safetensors(file);
  REQUIRE(checkpoint);
  auto restored = restore_carried(state_of(*checkpoint, file), to_value(checkpoint->metadata()));
  REQUIRE(restored);
  REQUIRE(*restored);
  keep_header((*restored)->metadata, spaced);
  CHECK(written((*restored)->state, (*restored)->metadata, kCarrying) == file);
  // The tree of another state is not written, nor any where none is wanted.
  REQUIRE((*restored)->state.set("step", Value::integer(4)));
  Value plain = (*restored)->metadata;
  forget_header(plain);
  for (const auto& options : {kCarrying, kDropping}) {
    CHECK(written((*restored)->state, (*restored)->metadata, options) ==
          written((*restored)->state, plain, options));
  }
}

TEST_CASE("safetensors: text of a file is not taken for a kept header") {
  const std::string header =
      R"({"__metadata__":{"safetensors.header":"{\"t\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"},)"
      R"("t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const std::string file = safetensors_file(header, bytes_of(2));
  const auto checkpoint = open_safetensors(file);
  REQUIRE(checkpoint);
  Value metadata = to_value(checkpoint->metadata());
  CHECK(find_kept_header(metadata) == nullptr);
  keep_header(metadata, header);
  CHECK(
      contains(written(state_of(*checkpoint, file), metadata), R"("safetensors.header":"{\"t\")"));
}
