// The part of abi.h that writes: builds the owning tree, finds what of it lies in bases, and makes
// the pieces of its file.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "abi.h"
#include "failure.h"
#include "tree_handle.h"
#include "written_file.h"

#include "espalier/delta/reference_collector.h"
#include "espalier/delta/reference_finder.h"
#include "espalier/detail/catalog.h"
#include "espalier/format/file_set.h"
#include "espalier/format/stored_tensor.h"
#include "espalier/read/to_value.h"
#include "espalier/value.h"

namespace espalier::abi {

// wasm/src/core/records.ts reads these bytes.
static_assert(sizeof(WriteNeed) == 32 && offsetof(WriteNeed, offset) == 16);
static_assert(offsetof(CopiedFile, is_missing) == offsetof(CopiedFile, length) + 8);

namespace {

std::string string_of(const Text& text) { return {text.data, text.length}; }

// A tensor of a source.
struct SourceTensor {
  std::uint32_t source = 0;
  std::uint32_t number = 0;
};

// Which tensor the data that were last asked for nothing are of: data do not say so otherwise.
SourceTensor& told() {
  static SourceTensor tensor;
  return tensor;
}

// Bytes that the host has: of a tensor of a source or, if `is_stored`, of a file of it.
Result<void> produce(const SourceTensor& of, bool is_stored, std::uint64_t offset,
                     MutableByteSpan out) {
  const Status status = espalier_produce(of.source, of.number, is_stored ? 1 : 0, offset,
                                         out.data(), static_cast<std::uint32_t>(out.size()));
  if (status == 0) return {};
  return fail(static_cast<ErrorCode>(status),
              of.source != 0
                  ? "the bytes of a tensor are not there"
                  : "the array of a tensor was transferred or shrunk while it was written; keep it "
                    "unchanged until the write has ended");
}

TensorData produced_by_host(const SourceTensor& tensor) {
  return TensorData::produced([tensor](std::uint64_t offset, MutableByteSpan out) -> Result<void> {
    told() = tensor;
    if (out.empty()) return {};
    return produce(tensor, false, offset, out);
  });
}

// Which tensor of a source the data are of.
Result<SourceTensor> source_of(const TensorData& data) {
  if (auto ok = data.read(0, {}); !ok) return propagate(ok);
  return told();
}

// The files of a source.
class HostFiles : public ByteSource {
 public:
  explicit HostFiles(std::uint32_t source) : source_(source) {}

  Result<ByteSpan> read(const espalier::Extent& extent, MutableByteSpan scratch) const override {
    const MutableByteSpan out = scratch.first(static_cast<std::size_t>(extent.length));
    if (auto ok = copy(extent, out); !ok) return propagate(ok);
    return ByteSpan(out);
  }

  Result<void> copy(const espalier::Extent& extent, MutableByteSpan out) const override {
    return produce({source_, extent.file}, true, extent.offset, out);
  }

 private:
  std::uint32_t source_;
};

// A checkpoint whose nodes become values.
class WriteSource {
 public:
  WriteSource(Tree* of, std::uint32_t number)
      : tree(of),
        values([checkpoint = of->checkpoint, number,
                files = std::make_shared<const HostFiles>(number)](const TensorRef& tensor) {
          TensorData data = produced_by_host({number, tensor.number()});
          if (!checkpoint.catalog().has_hashes()) return Result<TensorData>(std::move(data));
          return Result<TensorData>(
              std::move(data).also_stored(std::make_shared<const StoredTensor>(
                  StoredTensor{checkpoint.share(), tensor.number(), files})));
        }) {}

  Tree* tree;
  ValueMaker values;
};

// Reads bases by their sources' numbers. Makes no patches: their encoder is not worth its size.
class SourceHost : public FinderHost {
 public:
  explicit SourceHost(const std::vector<std::uint32_t>& sources) : sources_(sources) {}

  Result<ByteSpan> read_chunk(std::size_t base, const TensorRef& tensor, std::uint32_t i) override {
    chunk_.resize(static_cast<std::size_t>(chunk_length(tensor.bytes(), i)));
    const SourceTensor of{sources_[base], tensor.number()};
    if (auto ok = produce(of, false, i * kChunkBytes, chunk_); !ok) return propagate(ok);
    return ByteSpan(chunk_);
  }

  Result<void> copy(const BaseExtent& from, MutableByteSpan out) override {
    return produce({sources_[from.base], from.extent.file}, true, from.extent.offset, out);
  }

 private:
  const std::vector<std::uint32_t>& sources_;
  std::vector<std::byte> chunk_;
};

// What looks for references.
struct Finding {
  Finding(const Value& state, std::vector<ReferenceBase> bases, const FindRules& rules,
          const std::vector<std::uint32_t>& sources)
      : finder(state, std::move(bases), rules), host(sources) {}

  ReferenceFinder finder;
  SourceHost host;
  ReferenceFinder::Scratch scratch;
};

}  // namespace

class Write {
 public:
  void set_key(Key key) { key_ = std::move(key); }
  void set_label(std::string label) { label_ = std::move(label); }

  void begin(Kind kind) {
    if (!is_container(kind)) return fail("espalier_write_begin() takes only containers");
    open_.push_back(
        {kind, std::exchange(key_, std::nullopt), std::exchange(label_, std::nullopt), {}, {}});
  }

  void end() {
    if (open_.empty()) return fail("a container ends that was not begun");
    Container done = std::move(open_.back());
    open_.pop_back();
    key_ = std::move(done.key);
    label_ = std::move(done.label);
    switch (done.kind) {
      case Kind::kDict:
        return add(Value::dict(std::move(done.items)));
      case Kind::kRecord:
        return add(Value::record(std::move(done.items)));
      case Kind::kTuple:
        return add(Value::tuple(std::move(done.elements)));
      case Kind::kSet:
        return add(Value::set(std::move(done.elements)));
      default:
        return add(Value::list(std::move(done.elements)));
    }
  }

  void add(Value value) {
    if (label_) value = std::move(value).labelled(std::move(*label_));
    label_.reset();
    if (open_.empty()) {
      roots_.push_back(std::move(value));
    } else if (!has_keys(open_.back().kind)) {
      open_.back().elements.push_back(std::move(value));
    } else if (key_) {
      open_.back().items.emplace_back(std::move(*key_), std::move(value));
    } else {
      fail("a value within a dict or record has no key");
    }
    key_.reset();
  }

  void fail(const char* what) {
    if (!error_) error_ = Error{ErrorCode::kInvalidTree, Error::kNoOffset, {}, what};
  }

  Status check_built() {
    if (!error_ && (!open_.empty() || roots_.size() != 2)) {
      fail("a write takes one state and one dict of metadata");
    }
    return error_ ? set_failure(*error_) : 0;
  }

  // `make` makes a file of the state and the metadata.
  template <class Make>
  Status plan(const Make& make, std::uint64_t* length, std::uint32_t* pieces) {
    if (const Status status = check_built(); status != 0) return status;
    auto made = make(roots_[0], roots_[1]);
    if (!made) return set_failure(std::move(made.error()));
    file = std::move(*made);
    roots_.clear();
    references = {};
    *length = file->length();
    *pieces = file->pieces();
    return 0;
  }

  std::unordered_map<std::uint32_t, std::shared_ptr<const Tensor>> tensors;  // by id
  std::vector<WriteSource> sources;                                          // from number 1 on
  std::vector<ReferenceBase> bases;
  std::vector<std::uint32_t> base_sources;  // as many
  std::optional<Finding> finding;
  References references;
  std::unique_ptr<WrittenFile> file;
  Losses dropped;
  std::vector<WriteNeed> needs;  // of the last function that told them

  const Value& state() const { return roots_.front(); }

 private:
  struct Container {
    Kind kind;
    std::optional<Key> key;
    std::optional<std::string> label;
    std::vector<Value::Item> items;
    std::vector<Value> elements;
  };

  std::optional<Key> key_;  // of the value that comes next
  std::optional<std::string> label_;
  std::vector<Container> open_;
  std::vector<Value> roots_;
  std::optional<Error> error_;
};

namespace {

// Whether file and table have every file that chunks of the copy lie in.
bool has_all_files(const Tree& tree, bool is_espalier) {
  const auto count = tree.files.size();
  const auto is_there = [&](const ChunkRecord& record) { return record.file < count; };
  const Tables& t = tree.tables();
  return (!is_espalier || t.files.size() + 1 >= count) &&
         std::all_of(t.chunks.begin(), t.chunks.end(), is_there) &&
         std::all_of(t.bases.begin(), t.bases.end(), is_there);
}

Status no_such_piece() {
  return set_failure(
      {ErrorCode::kInvalidArgument, Error::kNoOffset, {}, "there is no piece with this number"});
}

}  // namespace

Write* espalier_write() { return new Write; }

void espalier_write_text_key(Write* write, const char* key, std::uint32_t length) {
  write->set_key(Key(std::string(key, length)));
}

void espalier_write_int_key(Write* write, std::int64_t key) { write->set_key(Key(key)); }

void espalier_write_label(Write* write, const char* label, std::uint32_t length) {
  write->set_label(std::string(label, length));
}

void espalier_write_begin(Write* write, std::uint32_t kind) {
  write->begin(static_cast<Kind>(kind));
}

void espalier_write_end(Write* write) { write->end(); }

void espalier_write_number(Write* write, std::uint32_t kind, std::uint64_t a, std::uint64_t b) {
  switch (static_cast<Kind>(kind)) {
    case Kind::kNull:
      return write->add(Value::null());
    case Kind::kBool:
      return write->add(Value::boolean(a != 0));
    case Kind::kInt64:
      return write->add(Value::integer(bits_as<std::int64_t>(a)));
    case Kind::kFloat64:
      return write->add(Value::real(bits_as<double>(a)));
    case Kind::kComplex128:
      return write->add(Value::complex({bits_as<double>(a), bits_as<double>(b)}));
    default:
      return write->fail("a number has a kind that is not a number's");
  }
}

void espalier_write_bytes(Write* write, std::uint32_t kind, const std::byte* data,
                          std::uint32_t length) {
  switch (static_cast<Kind>(kind)) {
    case Kind::kString:
      return write->add(Value::string(std::string(reinterpret_cast<const char*>(data), length)));
    case Kind::kBytes:
      return write->add(Value::bytes(std::vector<std::byte>(data, data + length)));
    case Kind::kBigInt: {
      auto integer = BigInt::from_bytes(ByteSpan(data, length));
      if (!integer) return write->fail("an integer has no bytes");
      return write->add(Value::integer(std::move(*integer)));
    }
    default:
      return write->fail("a value has a kind without bytes");
  }
}

void espalier_write_tensor(Write* write, std::uint32_t id, std::uint32_t dtype,
                           const std::uint64_t* shape, std::uint32_t rank,
                           std::uint32_t is_placeholder, const Text* axis_names,
                           std::uint32_t axis_count, const Text* block_name,
                           std::uint32_t block_elements, std::uint32_t block_bytes) {
  auto& known = write->tensors[id];
  if (!known) {
    Tensor tensor;
    // An invalid number becomes a dtype that is refused, not another valid one.
    tensor.dtype = static_cast<DType>(dtype < 256 ? dtype : 0);
    tensor.shape.assign(shape, shape + rank);
    if (is_placeholder == 0) tensor.data = produced_by_host({0, id});
    for (std::uint32_t i = 0; i < axis_count; ++i) {
      tensor.axis_names.push_back(string_of(axis_names[i]));
    }
    if (block_name != nullptr) tensor.block_name = string_of(*block_name);
    tensor.block_elements = block_elements;
    tensor.block_bytes = block_bytes;
    known = std::make_shared<const Tensor>(std::move(tensor));
  }
  write->add(Value::tensor(known));
}

std::uint32_t espalier_write_source(Write* write, Tree* tree) {
  const auto number = static_cast<std::uint32_t>(write->sources.size() + 1);
  write->sources.emplace_back(tree, number);
  return number;
}

Status espalier_write_node(Write* write, std::uint32_t source, std::uint32_t node,
                           std::uint32_t has_label) {
  if (source == 0 || source > write->sources.size()) return no_such("source", source);
  WriteSource& from = write->sources[source - 1];
  if (!from.tree->has_node(node)) return no_such("node", node);
  auto value = from.values.make(from.tree->node(node));
  if (!value) return set_failure(std::move(value.error()));
  if (has_label == 0) value = Value::tensor(value->as_tensor());
  write->add(std::move(*value));
  return 0;
}

Tree* espalier_base_of_tables(const Tables* tables, const std::uint8_t* digest,
                              const CopiedFile* files, std::uint32_t count) {
  FileSet all;
  for (std::uint32_t i = 0; i < count; ++i) {
    FileEntry file{.name = string_of(files[i].name), .length = files[i].length};
    if (files[i].is_missing != 0) {
      file.problem = Error{ErrorCode::kFileMissing, Error::kNoOffset, {}, {}};
    }
    all.push_back(std::move(file));
  }
  Tree* tree = espalier_tree_of_tables(tables, digest);
  tree->files = std::move(all);
  return tree;
}

Status espalier_write_base(Write* write, std::uint32_t source, const char* name,
                           std::uint32_t length, std::uint32_t is_espalier) {
  if (source == 0 || source > write->sources.size()) return no_such("source", source);
  std::string label(name, length);
  if (auto ok = check_label(label); !ok) {
    ok.error().file = std::move(label);
    return set_failure(std::move(ok.error()));
  }
  const Tree& tree = *write->sources[source - 1].tree;
  if (!has_all_files(tree, is_espalier != 0)) {
    return set_failure({ErrorCode::kInvalidArgument,
                        Error::kNoOffset,
                        {},
                        "a base that needs other files cannot have nested names; open it without "
                        "the option 'nest'",
                        std::move(label)});
  }
  write->bases.push_back({tree.checkpoint, std::move(label), is_espalier != 0, tree.files});
  write->base_sources.push_back(source);
  return 0;
}

Status espalier_write_find(Write* write, double most_of_full) {
  if (const Status status = write->check_built(); status != 0) return status;
  // Only patches would ask for the level.
  write->finding.emplace(write->state(), std::move(write->bases),
                         FindRules{.most_of_full = most_of_full}, write->base_sources);
  return 0;
}

std::uint32_t espalier_write_find_next(Write* write, std::uint64_t* bytes) {
  *bytes = 0;
  if (!write->finding) return kNone;
  ReferenceFinder& finder = write->finding->finder;
  if (!finder.next()) {
    write->references = finder.take();
    write->finding.reset();
    return kNone;
  }
  for (std::size_t i = 0; i < finder.steps(); ++i) *bytes += finder.step_bytes(i);
  return static_cast<std::uint32_t>(finder.steps());
}

Status espalier_write_find_needs(Write* write, std::uint32_t i, WriteNeeds* out) {
  if (!write->finding || i >= write->finding->finder.steps()) return no_such("step", i);
  write->needs.clear();
  for (const ReferenceFinder::Need& need : write->finding->finder.needs(i)) {
    WriteNeed told{.offset = need.extent.offset, .length = need.extent.length};
    if (need.tensor != nullptr) {
      const auto from = source_of(need.tensor->data);
      if (!from) return set_failure(from.error());
      if (from->source == 0) continue;
      told.source = from->source;
      told.number = from->number;
    } else {
      told.source = write->base_sources[need.base];
      told.number = need.there ? need.there->number() : need.extent.file;
      told.is_stored = need.there ? 0 : 1;
    }
    write->needs.push_back(told);
  }
  *out = {write->needs.data(), static_cast<std::uint32_t>(write->needs.size()),
          write->finding->finder.step_bytes(i)};
  return 0;
}

Status espalier_write_find_step(Write* write, std::uint32_t i) {
  if (!write->finding || i >= write->finding->finder.steps()) return no_such("step", i);
  Finding& finding = *write->finding;
  return status_of(finding.finder.step(i, finding.host, finding.scratch));
}

Status espalier_write_plan(Write* write, std::int32_t level, std::uint32_t carry,
                           std::uint64_t* length, std::uint32_t* pieces) {
  return write->plan(
      [&](const Value& state, const Value& metadata) {
        return written_espalier(state, metadata, level,
                                carry == 0 ? Carry::kNothing : Carry::kStored, write->references);
      },
      length, pieces);
}

Status espalier_write_plan_safetensors(Write* write, std::uint32_t unrepresentable,
                                       std::uint64_t* length, std::uint32_t* pieces) {
  return write->plan(
      [&](const Value& state, const Value& metadata) {
        return written_safetensors(state, metadata, static_cast<Unrepresentable>(unrepresentable),
                                   write->dropped);
      },
      length, pieces);
}

std::uint32_t espalier_write_dropped(Write* write, std::uint32_t i, Failure* out) {
  const auto& first = write->dropped.first();
  *out = {};
  if (i < first.size()) {
    out->path = text_of(first[i].path);
    out->message = text_of(first[i].what);
  }
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(write->dropped.count(), ~std::uint32_t{0}));
}

Status espalier_write_needs(Write* write, std::uint32_t i, WriteNeeds* out) {
  if (!write->file || i >= write->file->pieces()) return no_such_piece();
  write->needs.clear();
  for (const WrittenFile::Need& need : write->file->needs(i)) {
    const auto from = source_of(*need.data);
    if (!from) return set_failure(from.error());
    if (from->source == 0) continue;
    write->needs.push_back({from->source, need.is_stored ? need.extent.file : from->number,
                            need.is_stored ? 1u : 0u, 0, need.extent.offset, need.extent.length});
  }
  *out = {write->needs.data(), static_cast<std::uint32_t>(write->needs.size()),
          write->file->piece_bytes(i)};
  return 0;
}

Status espalier_write_piece(Write* write, std::uint32_t i, Piece* out) {
  if (!write->file || i >= write->file->pieces()) return no_such_piece();
  auto made = write->file->make(i);
  if (!made) return set_failure(std::move(made.error()));
  *out = {made->bytes.data(), static_cast<std::uint32_t>(made->bytes.size()), made->offset};
  return 0;
}

void espalier_write_free(Write* write) { delete write; }

}  // namespace espalier::abi
