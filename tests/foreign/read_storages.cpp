// Reads tensors that lie in a file as those of foreign formats do: with strides, in another byte
// order, negated, conjugated, in pieces. test_storages.py describes each on a line of standard
// input and compares what comes out with numpy.
//
//   read_storages FILE < cases > results
//
// A line has numbers alone: dtype, flags, offset, elements, rank, shape, strides, the count of
// slices, each of them as start, stop and step, the count of chunks, and the offset of each in
// FILE. The result of a case is the bytes of the slice. The program reads each tensor in every way
// that the library has, and fails where they differ.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/dtype.h"
#include "espalier/foreign/safetensors/format.h"
#include "espalier/format/access.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/format/owned_tables.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/plan.h"
#include "files/open/machine_opening.h"

namespace {

using namespace espalier;
using Bytes = std::vector<std::byte>;

struct Case {
  TensorRecord tensor;
  StorageRecord storage;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> strides;
  std::vector<Slice> slices;
  std::vector<std::uint64_t> offsets;
};

std::optional<Case> parse(const std::string& line) {
  std::istringstream in(line);
  const auto number = [&] {
    std::int64_t value = 0;
    in >> value;
    return value;
  };
  const auto size = [&] { return static_cast<std::uint64_t>(number()); };
  Case made;
  made.tensor.dtype = static_cast<std::uint8_t>(number());
  made.storage.flags = static_cast<std::uint8_t>(number());
  made.storage.offset = size();
  made.storage.elements = size();
  made.shape.resize(size());
  for (std::uint64_t& axis : made.shape) axis = size();
  if ((made.storage.flags & kStorageStrided) != 0) made.strides.resize(made.shape.size());
  for (std::uint64_t& stride : made.strides) stride = size();
  made.slices.resize(size());
  for (Slice& slice : made.slices) {
    slice.start = number();
    slice.stop = number();
    slice.step = number();
  }
  made.offsets.resize(size());
  for (std::uint64_t& offset : made.offsets) offset = size();
  return in ? std::optional(made) : std::nullopt;
}

// A checkpoint that is this one tensor.
OwnedTables tables_of(const Case& made) {
  OwnedTables tables;
  tables.nodes = {{.kind = static_cast<std::uint8_t>(Kind::kTensor)},
                  {.kind = static_cast<std::uint8_t>(Kind::kDict), .value = 2}};
  tables.tensors = {made.tensor};
  tables.shape_ends = {static_cast<std::uint32_t>(made.shape.size())};
  tables.dims = made.shape;
  tables.storages = {made.storage};
  tables.strides = made.strides;
  tables.chunks.resize(made.offsets.size());
  const std::uint64_t bytes = table_storage_bytes(tables.view(), 0);
  for (std::size_t i = 0; i < made.offsets.size(); ++i) {
    tables.chunks[i].offset = made.offsets[i];
    tables.chunks[i].stored = static_cast<std::uint32_t>(chunk_length(bytes, i));
  }
  return tables;
}

class Machine : public OpeningMachine {
 public:
  Machine(const Case& made, const OpenOptions& options) : made_(made), options_(options) {}

  std::span<const Extent> needs() const override { return {}; }
  Result<void> feed(const Extent&, ByteSpan) override { return {}; }
  Result<Checkpoint> finish() override {
    auto catalog = Catalog::from_foreign({.format = &kSafetensorsFormat,
                                          .tables = tables_of(made_),
                                          .files = {{.length = options_.file_size}}},
                                         options_.limits);
    if (!catalog) return propagate(catalog);
    return Checkpoint(std::move(*catalog));
  }

 private:
  const Case& made_;
  const OpenOptions options_;
};

// As a save takes it: in ranges that begin anywhere.
Result<Bytes> read_in_ranges(const CheckpointFile& file, const TensorRef& tensor) {
  auto value = file.load_lazily(file.state());
  if (!value) return propagate(value);
  Bytes bytes(static_cast<std::size_t>(tensor.bytes()));
  constexpr std::size_t kRange = 700'001;
  for (std::size_t at = 0; at < bytes.size(); at += kRange) {
    const auto out = MutableByteSpan(bytes).subspan(at, std::min(kRange, bytes.size() - at));
    if (auto ok = value->as_tensor()->data.read(at, out); !ok) return propagate(ok);
  }
  return bytes;
}

// As a driver without memory for the whole does it, chunks in the wrong order.
Result<Bytes> read_in_parts(const CheckpointFile& file, const TensorRef& tensor,
                            std::span<const Slice> slices) {
  const auto plan = ReadPlan::make(tensor, slices);
  if (!plan) return propagate(plan);
  Bytes bytes(static_cast<std::size_t>(plan->bytes()));
  ChunkReader reader;
  Bytes scratch;
  for (std::size_t i = plan->chunks().size(); i-- > 0;) {
    const auto stored = file.source().read(plan->chunks()[i].stored, {});
    if (!stored) return propagate(stored);
    const auto part = plan->open_part(i, *stored, reader, scratch);
    if (!part) return propagate(part);
    for (std::size_t k = 0; k < part->bytes.size(); ++k) {
      bytes[static_cast<std::size_t>(part->begin) + k] |= part->bytes[k];
    }
  }
  return bytes;
}

int fail_case(std::size_t number, const std::string& why) {
  std::cerr << "case " << number << ": " << why << "\n";
  return 1;
}

int run(const char* path) {
  std::string line;
  for (std::size_t number = 1; std::getline(std::cin, line); ++number) {
    const auto made = parse(line);
    if (!made) return fail_case(number, "not a case");
    const auto open = [&](Access access) {
      return MachineOpening::open(
          path, {.access = access, .threads = 2},
          [&](const OpenOptions& options) { return std::make_unique<Machine>(*made, options); });
    };
    const auto file = open(Access::kMapped);
    if (!file) return fail_case(number, file.error().describe());
    const TensorRef tensor = *file->state().tensor();
    const auto result = file->slice(tensor, made->slices);
    if (!result) return fail_case(number, result.error().describe());
    const auto whole = file->slice(tensor, {});
    if (!whole) return fail_case(number, whole.error().describe());
    const auto view = file->view(tensor);
    if (view || view.error().code != ErrorCode::kNotContiguous) {
      return fail_case(number, "it has a view");
    }
    for (const Access access : {Access::kMapped, Access::kRead}) {
      const auto same_file = open(access);
      if (!same_file) return fail_case(number, same_file.error().describe());
      const auto ranges = read_in_ranges(*same_file, *same_file->state().tensor());
      if (!ranges) return fail_case(number, ranges.error().describe());
      if (!std::ranges::equal(*ranges, whole->bytes())) {
        return fail_case(number, "ranges of it are not the whole");
      }
    }
    const auto parts = read_in_parts(*file, tensor, made->slices);
    if (!parts) return fail_case(number, parts.error().describe());
    if (!std::ranges::equal(*parts, result->bytes())) {
      return fail_case(number, "its parts are not the slice");
    }
    const auto bytes = result->bytes();
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: read_storages FILE < cases > results\n";
    return 2;
  }
  return run(argv[1]);
}
