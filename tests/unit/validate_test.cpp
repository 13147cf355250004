// Every rule of docs/format.md sections 2 to 6, broken one at a time in tables that are otherwise
// valid.
#include "espalier/format/validate.h"

#include <functional>
#include <string>
#include <vector>

#include "support/memory_file.h"
#include "support/tables_copy.h"
#include <doctest/doctest.h>

#include "espalier/format/access.h"
#include "espalier/format/file_set.h"
#include "espalier/format/find_path.h"
#include "espalier/format/header.h"
#include "espalier/format/owned_tables.h"
#include "espalier/write/layout.h"

namespace espalier {
namespace {

Tensor tensor(DType dtype, std::vector<std::uint64_t> shape, std::size_t bytes) {
  Tensor made;
  made.dtype = dtype;
  made.shape = std::move(shape);
  made.data = TensorData::owned(std::vector<std::byte>(bytes));
  return made;
}

Value numbered(const std::vector<std::int64_t>& keys) {
  Value dict = Value::dict();
  for (const std::int64_t key : keys) dict.add(key, Value::null());
  return dict;
}

Value opaque(const char* name, std::size_t blocks) {
  Tensor made = tensor(DType::kOpaque, {32 * blocks}, 18 * blocks);
  made.block_name = name;
  made.block_elements = 32;
  made.block_bytes = 18;
  return Value::tensor(std::move(made));
}

// A tree with something of everything.
Value rich_tree() {
  Tensor named = tensor(DType::kF32, {3, 2}, 24);
  named.axis_names = {"rows", ""};
  Tensor also_named = tensor(DType::kF32, {3}, 12);
  also_named.axis_names = {"rows"};
  const auto shared = std::make_shared<const Tensor>(std::move(named));
  Tensor hole = tensor(DType::kF32, {2, 2}, 0);
  hole.data = TensorData();
  return Value::dict({
      {"model", Value::dict({{"weight", Value::tensor(shared)},
                             {"tied", Value::tensor(shared)},
                             {"other", Value::tensor(std::move(also_named))},
                             {"quantised", opaque("q4", 2)},
                             {"quantised too", opaque("q5", 3)},
                             {"large", Value::tensor(tensor(DType::kU8, {2097252}, 2097252))},
                             {"empty", Value::tensor(tensor(DType::kF32, {0}, 0))},
                             {"scalar", Value::tensor(tensor(DType::kF32, {}, 4))}})},
      {"hole", Value::tensor(std::move(hole))},
      {"optimizer", Value::dict({{0, Value::dict({{"step", Value::integer(5)}})},
                                 {1, Value::real(2.5)},
                                 {"0", Value::null()}})},
      {"complex", Value::complex({1, 2})},
      {"string", Value::string("zz é")},
      {"bytes", Value::bytes(std::vector<std::byte>(3))},
      {"bigint", Value::integer(*BigInt::from_decimal("18446744073709551616"))},
      {"null", Value::null()},
      {"bool", Value::boolean(true)},
      {"unsorted", numbered({9, 8, 7, 6, 5, 4, 3, 2, 1})},
      {"sorted", numbered({1, 2, 3, 4, 5, 6, 7, 8, 9})},
      {"list", Value::list({Value::integer(1), Value::null()})},
      {"tuple", Value::tuple()},
      {"set", Value::set({Value::string("a"), Value::string("b")})},
      {"record", Value::record({{"x", Value::null()}, {"y", Value::null()}}).labelled("Point")},
      {"labelled", Value::null().labelled("")},
  });
}

// The tables of the rich tree, which a test may change, and the header facts that they must match.
struct Subject {
  OwnedTables t;
  FileEntry file;
  std::vector<FileEntry> further = {};
  FileFacts facts;
  Limits limits;

  static Subject of(const Value& state) {
    const auto layout = lay_out(state, Value::dict({{"note", Value::integer(7)}}));
    REQUIRE(layout);
    Subject made;
    made.t = testing::copy_of(layout->index.tables());
    made.file.length = layout->file_length;
    made.file.data_begin = kHeaderBytes + layout->index.bytes().size();
    return made;
  }
  static const Subject& valid() {
    static const Subject subject = of(rich_tree());
    return subject;
  }

  std::uint32_t number(const std::string& path) const {
    for (std::uint32_t i = 0; i < t.nodes.size(); ++i) {
      if (find_path(t.view(), i) == path) return i;
    }
    FAIL("no node ", path);
    return 0;
  }
  NodeRecord& node(const std::string& path) { return t.nodes[number(path)]; }
  TensorRecord& tensor_of(const std::string& path) { return t.tensors[node(path).value]; }
  ChunkRecord& chunk_of(const std::string& path, std::uint32_t i = 0) {
    return t.chunks[tensor_of(path).first_chunk + i];
  }
  std::uint32_t text(std::string_view wanted) const {
    for (std::uint32_t i = 0; i < t.text_ends.size(); ++i) {
      if (table_text(t.view(), i) == wanted) return i;
    }
    FAIL("no text ", wanted);
    return 0;
  }
  std::size_t position_of_text(std::string_view wanted) const {
    const std::uint32_t i = text(wanted);
    return t.text_ends[i] - wanted.size();
  }
  Result<PoolFacts> check() const {
    FileFacts with_files = facts;
    std::vector<FileEntry> files = {file};
    files.insert(files.end(), further.begin(), further.end());
    with_files.files = files;
    return validate(t.view(), with_files, limits);
  }
};

struct Break {
  std::string what;
  std::function<void(Subject&)> change;
  ErrorCode code;
  std::string path = {};
  /// Part of the message, where a later check would refuse the same with the same code.
  std::string words = {};
};

void check_all(const std::vector<Break>& breaks, const Subject& valid = Subject::valid()) {
  REQUIRE(valid.check());
  for (const Break& broken : breaks) {
    CAPTURE(broken.what);
    Subject subject = valid;
    broken.change(subject);
    const auto result = subject.check();
    CHECK_FALSE(result);
    if (result) continue;
    CAPTURE(result.error().message);
    CHECK(to_string(result.error().code) == to_string(broken.code));
    CHECK(result.error().path == broken.path);
    CHECK(result.error().message.find(broken.words) != std::string::npos);
  }
}

constexpr auto kLast = ~std::uint32_t{0};

TEST_CASE("Broken pools of texts are refused") {
  check_all({
      {"ends decrease", [](Subject& s) { s.t.text_ends[2] = s.t.text_ends[1] - 1; },
       ErrorCode::kTextInvalid},
      {"an end beyond the pool", [](Subject& s) { s.t.text_ends[2] = kLast; },
       ErrorCode::kTextInvalid},
      {"the pool has more than the ends say", [](Subject& s) { s.t.text.push_back('z'); },
       ErrorCode::kTextInvalid},
      {"a pool without texts", [](Subject& s) { s.t.text_ends.clear(); }, ErrorCode::kTextInvalid},
      {"not UTF-8", [](Subject& s) { s.t.text[s.position_of_text("scalar")] = '\xFF'; },
       ErrorCode::kTextInvalid},
      {"overlong form",
       [](Subject& s) {
         const std::size_t at = s.position_of_text("zz é") + 3;
         s.t.text[at] = '\xC0';
         s.t.text[at + 1] = '\x80';
       },
       ErrorCode::kTextInvalid},
      {"two texts share a character",
       [](Subject& s) {
         // "zz \xC3" and "\xA9": as a pool UTF-8 and sorted, each text by itself is not.
         s.t.text_ends.push_back(s.t.text_ends.back());
         --s.t.text_ends[s.t.text_ends.size() - 2];
         s.node("bool").kind = static_cast<std::uint8_t>(Kind::kString);
         s.node("bool").value = static_cast<std::uint32_t>(s.t.text_ends.size() - 1);
       },
       ErrorCode::kTextInvalid},
      {"not sorted", [](Subject& s) { s.t.text[s.position_of_text("scalar")] = 'z'; },
       ErrorCode::kTextInvalid},
      {"the same text twice",
       [](Subject& s) {
         // "q4", "q5" -> "q4", "q4"
         s.t.text[s.position_of_text("q5") + 1] = '4';
       },
       ErrorCode::kTextInvalid},
      {"a text that nothing uses",
       [](Subject& s) {
         s.t.text.push_back('\x7F');
         s.t.text_ends.push_back(static_cast<std::uint32_t>(s.t.text.size()));
       },
       ErrorCode::kTextInvalid},
  });
}

TEST_CASE("Broken pools of shapes are refused") {
  check_all({
      {"ends decrease", [](Subject& s) { s.t.shape_ends[2] = 0; }, ErrorCode::kTensorInvalid},
      {"an end beyond the pool", [](Subject& s) { s.t.shape_ends.back() = kLast; },
       ErrorCode::kTensorInvalid},
      {"the pool has more than the ends say", [](Subject& s) { s.t.dims.push_back(1); },
       ErrorCode::kTensorInvalid},
      {"not sorted by axes", [](Subject& s) { std::swap(s.t.dims[0], s.t.dims[1]); },
       ErrorCode::kTensorInvalid},
      {"not sorted by the number of axes", [](Subject& s) { s.t.shape_ends[0] = 1; },
       ErrorCode::kTensorInvalid},
      {"the same shape twice", [](Subject& s) { s.t.dims[1] = s.t.dims[0]; },
       ErrorCode::kTensorInvalid},
      {"a shape that nothing uses",
       [](Subject& s) {
         s.t.dims.insert(s.t.dims.end(), {9, 9, 9});
         s.t.shape_ends.push_back(static_cast<std::uint32_t>(s.t.dims.size()));
       },
       ErrorCode::kTensorInvalid},
      {"more axes than the limit", [](Subject& s) { s.limits.rank = 1; },
       ErrorCode::kLimitExceeded},
  });
}

TEST_CASE("Broken block types are refused") {
  check_all({
      {"a name that is not there", [](Subject& s) { s.t.blocks[0].name = kLast; },
       ErrorCode::kTensorInvalid},
      {"no elements", [](Subject& s) { s.t.blocks[0].elements = 0; }, ErrorCode::kTensorInvalid},
      {"no bytes", [](Subject& s) { s.t.blocks[0].bytes = 0; }, ErrorCode::kTensorInvalid},
      {"not sorted", [](Subject& s) { std::swap(s.t.blocks[0], s.t.blocks[1]); },
       ErrorCode::kTensorInvalid},
      {"the same twice", [](Subject& s) { s.t.blocks[1] = s.t.blocks[0]; },
       ErrorCode::kTensorInvalid},
      {"one that nothing uses",
       [](Subject& s) {
         s.t.blocks.push_back({s.t.blocks.back().name, 33, 1});
       },
       ErrorCode::kTensorInvalid},
      {"more than 16 bits can number",
       [](Subject& s) {
         for (std::uint32_t i = 0; i < 65536; ++i) {
           s.t.blocks.push_back({s.t.blocks[1].name, 33 + i, 1});
         }
       },
       ErrorCode::kTensorInvalid, "", "65535"},
  });
}

TEST_CASE("Broken nodes and keys are refused") {
  check_all({
      {"no nodes", [](Subject& s) { s.t = {}; }, ErrorCode::kTreeInvalid},
      {"no metadata",
       [](Subject& s) {
         s.t = {};
         s.t.nodes.push_back({.kind = static_cast<std::uint8_t>(Kind::kNull)});
       },
       ErrorCode::kTreeInvalid, "", "roots"},
      {"more nodes than the limit", [](Subject& s) { s.limits.nodes = s.t.nodes.size() - 1; },
       ErrorCode::kLimitExceeded},
      {"kind 0", [](Subject& s) { s.node("null").kind = 0; }, ErrorCode::kTreeInvalid},
      {"kind 16", [](Subject& s) { s.node("null").kind = 16; }, ErrorCode::kTreeInvalid},
      {"a reserved field", [](Subject& s) { s.node("null").zero = 1; }, ErrorCode::kTreeInvalid},
      {"key kind 3", [](Subject& s) { s.node("null").key_kind = 3; }, ErrorCode::kKeyInvalid, "",
       "unknown kind"},
      {"a key without a kind", [](Subject& s) { s.node("list/0").key = 1; },
       ErrorCode::kKeyInvalid},
      {"a text that is not there",
       [](Subject& s) { s.node("null").key = static_cast<std::uint32_t>(s.t.text_ends.size()); },
       ErrorCode::kKeyInvalid},
      {"an int key that is not the next word", [](Subject& s) { ++s.node("sorted/3").key; },
       ErrorCode::kKeyInvalid},
      {"a number that is not the next word", [](Subject& s) { --s.node("optimizer/1").value; },
       ErrorCode::kTreeInvalid},
      {"a word left over", [](Subject& s) { s.t.words.push_back(0); }, ErrorCode::kTreeInvalid},
      {"a word too few", [](Subject& s) { s.t.words.pop_back(); }, ErrorCode::kTreeInvalid},
      {"a root with a key", [](Subject& s) { s.t.nodes[0].key_kind = 1; }, ErrorCode::kKeyInvalid},
      {"an element with a key", [](Subject& s) { s.node("list/1").key_kind = 1; },
       ErrorCode::kKeyInvalid},
      {"an entry of a dict without a key",
       [](Subject& s) {
         s.node("null").key_kind = 0;
         s.node("null").key = 0;
       },
       ErrorCode::kKeyInvalid},
      {"a field of a record with an int key",
       [](Subject& s) {
         NodeRecord& field = s.node("record/y");
         NodeRecord& note = s.t.nodes.back();
         field.key_kind = 2;
         field.key = note.value;
         note.value += 1;
         s.t.words.push_back(7);
       },
       ErrorCode::kKeyInvalid},
      {"the same key twice", [](Subject& s) { s.node("record/y").key = s.text("x"); },
       ErrorCode::kKeyInvalid},
      {"the same int key twice", [](Subject& s) { s.t.words[s.node("optimizer/1").key] = 0; },
       ErrorCode::kKeyInvalid},
  });
}

TEST_CASE("Nodes that are no tree are refused") {
  check_all({
      {"children that are not the next free nodes", [](Subject& s) { ++s.node("model").value; },
       ErrorCode::kTreeInvalid},
      {"a cycle", [](Subject& s) { s.node("list").value = 2; }, ErrorCode::kTreeInvalid},
      {"more children than nodes", [](Subject& s) { s.node("list").count = kLast; },
       ErrorCode::kTreeInvalid},
      {"an empty container that points elsewhere", [](Subject& s) { s.node("tuple").value = 0; },
       ErrorCode::kTreeInvalid},
      {"an orphan", [](Subject& s) { s.t.nodes.push_back(s.node("list/1")); },
       ErrorCode::kTreeInvalid},
      {"metadata that is no dict",
       [](Subject& s) { s.t.nodes[1].kind = static_cast<std::uint8_t>(Kind::kRecord); },
       ErrorCode::kTreeInvalid},
      {"a tensor in the metadata",
       [](Subject& s) {
         NodeRecord& note = s.t.nodes.back();
         note.kind = static_cast<std::uint8_t>(Kind::kTensor);
         note.value = 0;
         s.t.words.pop_back();
       },
       ErrorCode::kTreeInvalid, "(metadata)/note"},
      {"too deep", [](Subject& s) { s.limits.depth = 2; }, ErrorCode::kLimitExceeded,
       "optimizer/0"},
      {"too long a path", [](Subject& s) { s.limits.path_bytes = 12; }, ErrorCode::kLimitExceeded,
       "model"},
  });
  Subject subject = Subject::valid();
  subject.limits.depth = 3;
  subject.limits.path_bytes = 18;  // "model" and "quantised too"
  CHECK(subject.check());
  --subject.limits.path_bytes;
  CHECK_FALSE(subject.check());
}

TEST_CASE("Broken values are refused") {
  check_all({
      {"a null with a value", [](Subject& s) { s.node("null").value = 1; }, ErrorCode::kTreeInvalid,
       "null"},
      {"a bool of 2", [](Subject& s) { s.node("bool").value = 2; }, ErrorCode::kTreeInvalid,
       "bool"},
      {"a string that is not there", [](Subject& s) { s.node("string").value = kLast; },
       ErrorCode::kTextInvalid, "string"},
      {"bytes out of order", [](Subject& s) { ++s.node("bytes").value; }, ErrorCode::kTreeInvalid,
       "bytes"},
      {"bytes beyond the pool", [](Subject& s) { s.node("bytes").count = kLast; },
       ErrorCode::kTreeInvalid, "bytes"},
      {"bytes left over", [](Subject& s) { s.t.bytes.push_back({}); }, ErrorCode::kTreeInvalid},
      {"a bigint that an int64 could hold",
       [](Subject& s) {
         --s.node("bigint").count;
         s.t.bytes.pop_back();
       },
       ErrorCode::kTreeInvalid, "bigint"},
      {"a bigint with a needless byte",
       [](Subject& s) {
         ++s.node("bigint").count;
         s.t.bytes.push_back({});
       },
       ErrorCode::kTreeInvalid, "bigint"},
      {"a negative bigint with a needless byte",
       [](Subject& s) {
         s.t.bytes[s.t.bytes.size() - 2] = std::byte{0x80};
         s.t.bytes.back() = std::byte{0xFF};
       },
       ErrorCode::kTreeInvalid, "bigint"},
      {"a bigint over the limit", [](Subject& s) { s.limits.bigint_bytes = 8; },
       ErrorCode::kLimitExceeded, "bigint"},
      {"a count where there is none", [](Subject& s) { s.node("optimizer/0/step").count = 1; },
       ErrorCode::kTreeInvalid, "optimizer/0/step"},
      {"a tensor with a count", [](Subject& s) { s.node("model/weight").count = 1; },
       ErrorCode::kTreeInvalid, "model/weight"},
  });
}

TEST_CASE("Broken tensors are refused") {
  check_all({
      {"a tensor that is not there", [](Subject& s) { s.node("model/scalar").value = kLast; },
       ErrorCode::kTensorInvalid, "model/scalar"},
      {"tensors out of order", [](Subject& s) { ++s.node("model/weight").value; },
       ErrorCode::kTensorInvalid, "model/weight"},
      {"a tensor that nothing names", [](Subject& s) { s.t.tensors.push_back(s.t.tensors[0]); },
       ErrorCode::kTensorInvalid},
      {"a placeholder's tensor named twice",
       [](Subject& s) {
         NodeRecord& null = s.node("null");
         null.kind = static_cast<std::uint8_t>(Kind::kPlaceholder);
         null.value = s.node("hole").value;
       },
       ErrorCode::kTensorInvalid, "null"},
      {"a tensor that is a placeholder's",
       [](Subject& s) {
         NodeRecord& null = s.node("null");
         null.kind = static_cast<std::uint8_t>(Kind::kTensor);
         null.value = s.node("hole").value;
       },
       ErrorCode::kTensorInvalid, "null"},
      {"a placeholder with chunks", [](Subject& s) { s.tensor_of("hole").first_chunk = 0; },
       ErrorCode::kTensorInvalid, "hole"},
      {"a tensor without chunks",
       [](Subject& s) { s.tensor_of("model/other").first_chunk = kLast; },
       ErrorCode::kTensorInvalid, "model/other"},
      {"dtype 0", [](Subject& s) { s.tensor_of("model/other").dtype = 0; },
       ErrorCode::kTensorInvalid, "model/other"},
      {"dtype 29", [](Subject& s) { s.tensor_of("hole").dtype = 29; }, ErrorCode::kTensorInvalid,
       "hole"},
      {"a reserved field", [](Subject& s) { s.tensor_of("model/other").zero = 1; },
       ErrorCode::kTensorInvalid, "model/other"},
      {"a shape that is not there", [](Subject& s) { s.tensor_of("model/other").shape = kLast; },
       ErrorCode::kTensorInvalid, "model/other"},
      {"a block that is not there", [](Subject& s) { s.tensor_of("model/quantised").block = 3; },
       ErrorCode::kTensorInvalid, "model/quantised"},
      {"a block of a tensor that has none",
       [](Subject& s) { s.tensor_of("model/other").block = 1; }, ErrorCode::kTensorInvalid,
       "model/other"},
      {"an opaque tensor without a block",
       [](Subject& s) { s.tensor_of("model/quantised").block = 0; }, ErrorCode::kTensorInvalid,
       "model/quantised"},
      {"blocks that do not divide the last axis", [](Subject& s) { s.t.blocks[0].elements = 33; },
       ErrorCode::kTensorInvalid, "model/quantised"},
      {"bits that are no whole bytes",
       [](Subject& s) { s.tensor_of("model/other").dtype = static_cast<std::uint8_t>(DType::kI4); },
       ErrorCode::kTensorInvalid, "model/other"},
      {"more bytes than fit",
       [](Subject& s) {
         const std::uint32_t end = s.t.shape_ends[s.tensor_of("model/weight").shape];
         s.t.dims[end - 2] = s.t.dims[end - 1] = std::uint64_t{1} << 62;
       },
       ErrorCode::kTensorInvalid, "model/weight"},
      {"the shape of another tensor",
       [](Subject& s) { s.tensor_of("model/scalar").shape = s.tensor_of("model/other").shape; },
       ErrorCode::kChunkInvalid, "model/scalar"},
  });
}

TEST_CASE("Broken chunks are refused") {
  const auto compress = [](Subject& s, std::uint8_t codec, std::uint32_t stored) {
    // The last chunk but one of the file, and what follows moves up.
    ChunkRecord& chunk = s.chunk_of("model/scalar");
    chunk.codec = codec;
    s.file.length -= chunk.stored - stored;
    chunk.stored = stored;
    s.facts.features = codec == 1 ? kFeatureZstd : kFeaturePlanes;
  };
  check_all({
      {"a first chunk that is not the next",
       [](Subject& s) { ++s.tensor_of("model/other").first_chunk; }, ErrorCode::kChunkInvalid,
       "model/other"},
      {"an empty tensor's first chunk elsewhere",
       [](Subject& s) { s.tensor_of("model/empty").first_chunk = 0; }, ErrorCode::kChunkInvalid,
       "model/empty"},
      {"too few chunks", [](Subject& s) { s.t.chunks.pop_back(); }, ErrorCode::kChunkInvalid,
       "model/scalar"},
      {"a chunk that nothing uses", [](Subject& s) { s.t.chunks.push_back({}); },
       ErrorCode::kChunkInvalid},
      {"another file", [](Subject& s) { s.chunk_of("model/other").file = 1; },
       ErrorCode::kChunkInvalid, "model/other"},
      {"a reserved field", [](Subject& s) { s.chunk_of("model/other").zero = 1; },
       ErrorCode::kChunkInvalid, "model/other"},
      {"a raw chunk with the wrong length", [](Subject& s) { --s.chunk_of("model/other").stored; },
       ErrorCode::kChunkInvalid, "model/other"},
      {"codec 3", [](Subject& s) { s.chunk_of("model/other").codec = 3; }, ErrorCode::kChunkInvalid,
       "model/other"},
      {"a compressed chunk that is no shorter", [&](Subject& s) { compress(s, 1, 4); },
       ErrorCode::kChunkInvalid, "model/scalar"},
      {"a compressed chunk of nothing", [&](Subject& s) { compress(s, 2, 0); },
       ErrorCode::kChunkInvalid, "model/scalar"},
      {"the wrong feature bit",
       [&](Subject& s) {
         compress(s, 1, 3);
         s.facts.features = kFeaturePlanes;
       },
       ErrorCode::kHeaderInvalid},
      {"a feature bit that nothing needs", [](Subject& s) { s.facts.features = kFeatureZstd; },
       ErrorCode::kHeaderInvalid},
      {"a feature bit that is missing",
       [&](Subject& s) {
         compress(s, 2, 3);
         s.facts.features = 0;
       },
       ErrorCode::kHeaderInvalid},
      {"a gap before a tensor", [](Subject& s) { s.chunk_of("model/other").offset += 64; },
       ErrorCode::kChunkInvalid, "model/other"},
      {"a tensor that is not aligned", [](Subject& s) { s.chunk_of("model/other").offset -= 1; },
       ErrorCode::kChunkInvalid, "model/other"},
      {"a gap before the first tensor", [](Subject& s) { s.chunk_of("model/weight").offset += 64; },
       ErrorCode::kChunkInvalid, "model/weight"},
      {"a gap within a tensor", [](Subject& s) { s.chunk_of("model/large", 1).offset += 64; },
       ErrorCode::kChunkInvalid, "model/large"},
      {"chunks that overlap",
       [](Subject& s) { s.chunk_of("model/large", 2).offset -= kChunkBytes; },
       ErrorCode::kChunkInvalid, "model/large"},
      {"an offset that wraps",
       [](Subject& s) { s.chunk_of("model/other").offset = ~std::uint64_t{0} - 63; },
       ErrorCode::kChunkInvalid, "model/other"},
      {"a file that is too short", [](Subject& s) { --s.file.length; }, ErrorCode::kChunkInvalid,
       "model/scalar"},
      {"a file that is too long", [](Subject& s) { ++s.file.length; }, ErrorCode::kChunkInvalid},
      {"an index that ends elsewhere", [](Subject& s) { s.file.data_begin += 64; },
       ErrorCode::kChunkInvalid, "model/weight"},
  });
  for (const std::uint8_t codec : {std::uint8_t{1}, std::uint8_t{2}}) {
    Subject subject = Subject::valid();
    compress(subject, codec, 3);
    CHECK(subject.check());
  }
}

TEST_CASE("Broken labels are refused") {
  check_all({
      {"out of order", [](Subject& s) { std::swap(s.t.labels[0], s.t.labels[1]); },
       ErrorCode::kTreeInvalid},
      {"two for one node", [](Subject& s) { s.t.labels[1].node = s.t.labels[0].node; },
       ErrorCode::kTreeInvalid},
      {"a node that is not there", [](Subject& s) { s.t.labels[1].node = kLast; },
       ErrorCode::kTreeInvalid},
      {"a text that is not there", [](Subject& s) { s.t.labels[1].text = kLast; },
       ErrorCode::kTreeInvalid},
  });
}

TEST_CASE("Broken orders of dicts are refused") {
  // The root has an order too, and comes first.
  check_all({
      {"no order for a large dict",
       [](Subject& s) {
         s.t.dict_orders.pop_back();
         s.t.order.resize(s.t.order.size() - 9);
       },
       ErrorCode::kKeyInvalid, "unsorted"},
      {"an order for a small dict",
       [](Subject& s) {
         s.t.dict_orders.push_back(
             {s.number("record"), static_cast<std::uint32_t>(s.t.order.size())});
         s.t.order.insert(s.t.order.end(), {0, 1});
       },
       ErrorCode::kKeyInvalid},
      {"a needless order",
       [](Subject& s) {
         s.t.dict_orders.push_back(
             {s.number("sorted"), static_cast<std::uint32_t>(s.t.order.size())});
         s.t.order.insert(s.t.order.end(), {0, 1, 2, 3, 4, 5, 6, 7, 8});
       },
       ErrorCode::kKeyInvalid, "sorted"},
      {"an order that does not ascend",
       [](Subject& s) {
         std::swap(s.t.order[s.t.order.size() - 1], s.t.order[s.t.order.size() - 2]);
       },
       ErrorCode::kKeyInvalid, "unsorted"},
      {"a position twice", [](Subject& s) { s.t.order.back() = s.t.order[s.t.order.size() - 2]; },
       ErrorCode::kKeyInvalid, "unsorted"},
      {"a position that is not there", [](Subject& s) { s.t.order.back() = 9; },
       ErrorCode::kKeyInvalid, "unsorted"},
      {"an order that is not the next", [](Subject& s) { s.t.dict_orders[1].first = 0; },
       ErrorCode::kKeyInvalid, "unsorted"},
      {"an order beyond its vector", [](Subject& s) { s.t.order.pop_back(); },
       ErrorCode::kKeyInvalid, "unsorted"},
      {"an order left over", [](Subject& s) { s.t.order.push_back(0); }, ErrorCode::kKeyInvalid},
      {"an entry twice", [](Subject& s) { s.t.dict_orders.push_back(s.t.dict_orders[1]); },
       ErrorCode::kKeyInvalid},
      {"entries out of order",
       [](Subject& s) { std::swap(s.t.dict_orders[0], s.t.dict_orders[1]); },
       ErrorCode::kKeyInvalid, ""},
      {"the same key twice in a large dict",
       [](Subject& s) { s.t.words[s.node("unsorted/9").key] = 8; }, ErrorCode::kKeyInvalid,
       "unsorted"},
      {"the same key twice in a large dict in order",
       [](Subject& s) { s.t.words[s.node("sorted/9").key] = 8; }, ErrorCode::kKeyInvalid, "sorted"},
  });
}

TEST_CASE("Broken names of axes are refused") {
  check_all({
      {"out of order", [](Subject& s) { std::swap(s.t.axes[0].tensor, s.t.axes[1].tensor); },
       ErrorCode::kTensorInvalid},
      {"twice for one tensor", [](Subject& s) { s.t.axes[1].tensor = s.t.axes[0].tensor; },
       ErrorCode::kTensorInvalid},
      {"a tensor that is not there", [](Subject& s) { s.t.axes[1].tensor = kLast; },
       ErrorCode::kTensorInvalid},
      {"names that are not the next", [](Subject& s) { s.t.axes[1].first = 0; },
       ErrorCode::kTensorInvalid},
      {"names left over", [](Subject& s) { s.t.axis_names.push_back(0); },
       ErrorCode::kTensorInvalid},
      {"too few names", [](Subject& s) { s.t.axis_names.pop_back(); }, ErrorCode::kTensorInvalid},
      {"a name that is not there", [](Subject& s) { s.t.axis_names[0] = kLast; },
       ErrorCode::kTensorInvalid},
      {"names of a tensor without axes",
       [](Subject& s) {
         s.t.axes.push_back(
             {s.node("model/scalar").value, static_cast<std::uint32_t>(s.t.axis_names.size())});
       },
       ErrorCode::kTensorInvalid},
  });
}

TEST_CASE("A foreign file's chunks may lie anywhere within it, but not elsewhere") {
  Subject subject = Subject::valid();
  subject.facts.placement = Placement::kForeign;
  ChunkRecord& chunk = subject.chunk_of("model/other");
  chunk.offset = subject.file.length - chunk.stored;
  CHECK(subject.check());
  ++chunk.offset;
  auto result = subject.check();
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::kChunkInvalid);
  chunk.offset = subject.file.data_begin - 1;
  CHECK_FALSE(subject.check());
  chunk.offset = ~std::uint64_t{0};
  CHECK_FALSE(subject.check());
}

// One tensor of three chunks, all of them in the same further file, out of order.
Subject referring() {
  Subject subject =
      Subject::of(Value::dict({{"large", Value::tensor(tensor(DType::kU8, {2097252}, 2097252))}}));
  FileRecord record;
  record.length = 4 * kChunkBytes;
  record.name = subject.text("large");
  record.head = 1;
  subject.t.files = {record, record};
  for (const FileRecord& file : subject.t.files) subject.further.push_back({.length = file.length});
  subject.facts.features = kFeatureOtherFiles;
  subject.file.length = subject.file.data_begin;
  const std::uint64_t offsets[] = {2 * kChunkBytes, 0, kChunkBytes};
  for (std::uint32_t i = 0; i < 3; ++i) {
    subject.chunk_of("large", i).file = 1;
    subject.chunk_of("large", i).offset = offsets[i];
  }
  // The other file has a chunk, too.
  subject.chunk_of("large", 2).file = 2;
  return subject;
}

TEST_CASE("The chunks of a tensor in a further file may lie in any order and share no byte") {
  Subject subject = referring();
  CHECK(subject.check());
  subject.chunk_of("large", 0).offset = kChunkBytes;
  CHECK_MESSAGE(subject.check(), "side by side");
  subject.chunk_of("large", 2).offset = 100;
  CHECK_MESSAGE(subject.check(), "the same places in two files");
  const std::string words = "two chunks of a tensor share bytes of a file";
  check_all(
      {
          {"the same bytes", [](Subject& s) { s.chunk_of("large", 0).offset = 0; },
           ErrorCode::kChunkInvalid, "large", words},
          {"one byte shared", [](Subject& s) { s.chunk_of("large", 0).offset = kChunkBytes - 1; },
           ErrorCode::kChunkInvalid, "large", words},
          {"the last chunk within another",
           [](Subject& s) {
             s.chunk_of("large", 1).file = 2;
             s.chunk_of("large", 2).offset = 7;
           },
           ErrorCode::kChunkInvalid, "large", words},
          {"a name that is not in the pool",
           [](Subject& s) { s.t.files[0].name = static_cast<std::uint32_t>(s.t.text_ends.size()); },
           ErrorCode::kIndexInvalid},
      },
      referring());
}

// Tensors as openers of other formats make them. Each test adds the strides.
Subject foreign_tensors() {
  Tensor hole = tensor(DType::kF32, {2, 2}, 0);
  hole.data = TensorData();
  Subject subject = Subject::of(Value::dict({
      {"a", Value::tensor(tensor(DType::kU8, {5}, 5))},
      {"empty", Value::tensor(tensor(DType::kF32, {0}, 0))},
      {"hole", Value::tensor(std::move(hole))},
      {"quantised", opaque("q4", 2)},
      {"real", Value::tensor(tensor(DType::kF32, {3, 2}, 24))},
  }));
  subject.facts.placement = Placement::kForeign;
  return subject;
}

StorageRecord& store(Subject& s, const char* path, std::vector<std::uint64_t> strides,
                     std::uint64_t elements, std::uint64_t offset = 0) {
  s.t.storages.push_back({.tensor = s.node(path).value,
                          .flags = kStorageStrided,
                          .first_stride = static_cast<std::uint32_t>(s.t.strides.size()),
                          .elements = elements,
                          .offset = offset});
  s.t.strides.insert(s.t.strides.end(), strides.begin(), strides.end());
  return s.t.storages.back();
}

TEST_CASE("Strides that stay within their storage are accepted") {
  const auto is_valid = [](const std::function<void(Subject&)>& change) {
    Subject subject = foreign_tensors();
    change(subject);
    return subject.check().has_value();
  };
  CHECK(is_valid([](Subject& s) { store(s, "real", {2, 1}, 6); }));
  CHECK(is_valid([](Subject& s) { store(s, "real", {0, 0}, 6, 5); }));
  CHECK(is_valid([](Subject& s) { store(s, "real", {1, 3}, 6).flags |= kStorageSwapped; }));
  CHECK(is_valid([](Subject& s) { store(s, "real", {}, 0).flags = kStorageNegated; }));
  CHECK(is_valid([](Subject& s) {
    store(s, "a", {1}, 5);
    store(s, "real", {1, 3}, 6);
  }));
  // A tensor without elements has none outside, whatever its strides and its offset are.
  CHECK(is_valid([](Subject& s) { store(s, "empty", {~std::uint64_t{0}}, 0); }));
  CHECK(is_valid([](Subject& s) { store(s, "empty", {1}, 0, 7); }));
}

TEST_CASE("Broken storages and strides are refused") {
  constexpr std::uint64_t kLarge = std::uint64_t{1} << 62;
  const std::string form = "a tensor's storage form is invalid for its dtype";
  const std::string malformed = "a tensor's strides are malformed";
  const std::string out = "a tensor's strides lead out of its storage";
  constexpr auto kInvalid = ErrorCode::kTensorInvalid;
  check_all(
      {
          {"a storage of no tensor", [](Subject& s) { store(s, "real", {}, 6).tensor = kLast; },
           kInvalid, "", "some storages or strides belong to no tensor"},
          {"a stride of no tensor",
           [](Subject& s) {
             store(s, "real", {2, 1, 1}, 6);
           },
           kInvalid, "", "some storages or strides belong to no tensor"},
          {"no flag", [](Subject& s) { store(s, "real", {}, 6).flags = 0; }, kInvalid, "real",
           form},
          {"an unknown flag",
           [](Subject& s) {
             store(s, "real", {2, 1}, 6).flags |= 16;
           },
           kInvalid, "real", form},
          {"the conjugates of reals",
           [](Subject& s) { store(s, "real", {}, 6).flags = kStorageConjugated; }, kInvalid, "real",
           form},
          {"a placeholder",
           [](Subject& s) {
             store(s, "hole", {2, 1}, 4);
           },
           kInvalid, "hole", form},
          {"blocks", [](Subject& s) { store(s, "quantised", {1}, 64); }, kInvalid, "quantised",
           malformed},
          {"strides that are not the next",
           [](Subject& s) {
             store(s, "real", {0, 0, 0}, 6).first_stride = 1;
           },
           kInvalid, "real", malformed},
          {"too few strides", [](Subject& s) { store(s, "real", {0}, 6); }, kInvalid, "real",
           malformed},
          {"an element after the storage",
           [](Subject& s) {
             store(s, "real", {2, 1}, 5);
           },
           kInvalid, "real", out},
          {"a first element after the storage",
           [](Subject& s) {
             store(s, "real", {0, 0}, 6, 6);
           },
           kInvalid, "real", out},
          {"a stride that wraps",
           [=](Subject& s) {
             store(s, "real", {2 * kLarge, 1}, 6);
           },
           kInvalid, "real", out},
          {"an offset that wraps",
           [](Subject& s) {
             store(s, "real", {2, 1}, 6, 0 - 5ull);
           },
           kInvalid, "real", out},
          {"elements whose bytes wrap",
           [=](Subject& s) {
             store(s, "real", {2, 1}, kLarge);
           },
           kInvalid, "real", out},
          {"2^63 bytes", [=](Subject& s) { store(s, "a", {1}, 2 * kLarge); }, kInvalid, "a", out},
          // One byte less is not too much for a tensor, only for the file.
          {"2^63 - 1 bytes", [=](Subject& s) { store(s, "a", {1}, 2 * kLarge - 1); },
           ErrorCode::kChunkInvalid, "a"},
      },
      foreign_tensors());
}

TEST_CASE("The tensors of another format are in proportion to its files") {
  const auto check = [](std::uint64_t a, std::uint64_t b, std::uint64_t file,
                        std::uint64_t decoded_bytes) {
    Subject subject = Subject::of(Value::dict({{"a", Value::tensor(tensor(DType::kU8, {5}, 5))},
                                               {"b", Value::tensor(tensor(DType::kU8, {6}, 6))}}));
    subject.facts.placement = Placement::kForeign;
    subject.t.dims = {a, b};
    for (const char* path : {"a", "b"}) {
      // One byte, which is every element.
      subject.chunk_of(path).stored = 1;
      store(subject, path, {0}, 1);
    }
    subject.file.length = file;
    subject.limits.decoded_bytes = decoded_bytes;
    return subject.check();
  };
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  struct Case {
    const char* name;
    std::uint64_t room;
    std::uint64_t file;
    std::uint64_t decoded_bytes;
  };
  const Case cases[] = {
      {"a short file may repeat its bytes up to 1 GiB", kGiB, 4096, 1024 * kGiB},
      {"a long one as a compressed file", 32 * kGiB, kGiB / 1024, 1024 * kGiB},
      {"but within the limit", 1024 * kGiB, kGiB, 1024 * kGiB},
      {"a low limit counts for short files, too", 5000, 4096, 5000},
      {"what stands in a file is no repetition", 1000 * kGiB, 1000 * kGiB, kGiB},
      {"totals do not wrap", (std::uint64_t{1} << 63) - 1, std::uint64_t{1} << 62,
       ~std::uint64_t{0}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const auto most = check(7, c.room - 7, c.file, c.decoded_bytes);
    CHECK_MESSAGE(most, most.error().describe());
    const auto more = check(7, c.room - 6, c.file, c.decoded_bytes);
    REQUIRE_FALSE(more);
    CHECK(more.error().code == ErrorCode::kLimitExceeded);
    CHECK(more.error().path == "b");
  }
}

TEST_CASE("Errors name the file offset of the record that is wrong") {
  auto layout = lay_out(rich_tree(), Value::dict());
  REQUIRE(layout);
  const auto chunks = layout->index.chunks();
  chunks[3].zero = 1;
  const Tables tables = std::as_const(layout->index).tables();
  const FileEntry file{.length = layout->file_length,
                       .data_begin = kHeaderBytes + layout->index.bytes().size()};
  const FileFacts facts{.files = std::span(&file, 1),
                        .index = layout->index.bytes().data(),
                        .index_offset = kHeaderBytes};
  const auto result = validate(tables, facts, {});
  REQUIRE_FALSE(result);
  const auto in_index =
      reinterpret_cast<const std::byte*>(&chunks[3]) - layout->index.bytes().data();
  CHECK(result.error().offset == kHeaderBytes + static_cast<std::uint64_t>(in_index));
}

// For every change of one byte of the tables, validate() returns, and accepted tables have paths.
TEST_CASE("No single changed byte of the tables leads astray") {
  const Subject& valid = Subject::valid();
  std::size_t refused = 0;
  std::size_t tried = 0;
  const auto damage = [&](auto pool) {
    const std::size_t size = (valid.t.*pool).size() * sizeof((valid.t.*pool)[0]);
    for (std::size_t i = 0; i < size; ++i) {
      for (const unsigned change : {0x01u, 0x80u, 0xFFu}) {
        Subject subject = valid;
        auto* bytes = reinterpret_cast<unsigned char*>((subject.t.*pool).data());
        bytes[i] = static_cast<unsigned char>(bytes[i] ^ change);
        ++tried;
        if (!subject.check()) {
          ++refused;
          continue;
        }
        for (std::uint32_t node = 0; node < subject.t.nodes.size(); ++node) {
          find_path(subject.t.view(), node);
        }
      }
    }
  };
  damage(&OwnedTables::nodes);
  damage(&OwnedTables::tensors);
  damage(&OwnedTables::shape_ends);
  damage(&OwnedTables::dims);
  damage(&OwnedTables::text_ends);
  damage(&OwnedTables::labels);
  damage(&OwnedTables::dict_orders);
  damage(&OwnedTables::order);
  damage(&OwnedTables::axes);
  damage(&OwnedTables::axis_names);
  damage(&OwnedTables::blocks);
  CHECK(tried > 3000);
  CHECK(refused > tried * 9 / 10);
}

}  // namespace
}  // namespace espalier
